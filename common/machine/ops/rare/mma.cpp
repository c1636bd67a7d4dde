// mma.sync that no kernel of this repository has: 8 rows of integers, and double precision.
#include <cmath>
#include <cstring>

#include "common/machine/ops/product.h"

namespace machine {

// Element (row, k) of A: lane row % 8 * 4 + k % 4 of register row / 8 + 2 * (k / 4); of B:
// lane col * 4 + k % 4 of register k / 4.
void mma_f64(int m, int k, double* const d[], const double* const a[], const double* const b[],
             const double* const c[]) {
  double sums[4][32];
  for (int r = 0; r < m / 4; ++r) {
    for (int l = 0; l < 32; ++l) {
      const int quad = l / 4 * 4, col = 2 * (l % 4) + r % 2;
      double sum = c[r][l];
      for (int i = 0; i < k; ++i) {
        sum = std::fma(a[r / 2 + 2 * (i / 4)][quad + i % 4], b[i / 4][4 * col + i % 4], sum);
      }
      sums[r][l] = sum;
    }
  }
  for (int r = 0; r < m / 4; ++r) std::memcpy(d[r], sums[r], sizeof sums[r]);
}

namespace {

// m8n8k16 in integers: the upper half of m16n8k16.
Step mma_sync_m8(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<ProductQualifiers>();
  const Mma shape = {of.a, of.b, AccumulatorType::S32, 16, of.saturates};
  static const uint32_t ZEROS[LANES] = {};
  uint32_t lower[2][LANES];
  uint32_t* rows[6] = {};
  for (uint32_t i = 0; i < std::size(rows); ++i) rows[i] = row_of(warp, inst.slots[i]);
  uint32_t* const d[4] = {rows[0], rows[1], lower[0], lower[1]};
  const uint32_t* const a[2] = {rows[2], ZEROS};
  const uint32_t* const b[1] = {rows[3]};
  const uint32_t* const c[4] = {rows[4], rows[5], ZEROS, ZEROS};
  mma(shape, d, a, b, c);
  warp.multiplies = true;
  return Step::next;
}

Handler pick_mma_m8(Opcode& opcode) {
  opcode.convergent = true;
  opcode.set(product_qualifiers(opcode));
  return mma_sync_m8;
}

struct DoubleShape {
  uint16_t m, k;
};

Step mma_sync_f64(Warp& warp, const Inst& inst, uint32_t) {
  double* rows[20] = {};  // 4 of D, 8 of A, 4 of B and 4 of C at most
  for (uint32_t i = 0; i < inst.slot_count; ++i) rows[i] = warp.row<double>(inst.slots[i].row);
  const auto [m, k] = inst.as<DoubleShape>();
  double** const a = rows + m / 4;
  mma_f64(m, k, rows, a, a + m * k / 32, a + m * k / 32 + k / 4);
  return Step::next;
}

Handler pick_mma_f64(Opcode& opcode) {
  opcode.convergent = true;
  opcode.set(DoubleShape{static_cast<uint16_t>(extent(opcode.group[0], 'm')),
                         static_cast<uint16_t>(extent(opcode.group[0], 'k'))});
  return mma_sync_f64;
}

const Row ROWS[] = {
    {"mma.sync.aligned.m8n8k16.row.col{.satfinite,}.s32{.s8,.u8}{.s8,.u8}.s32",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_mma_m8, "D = A * B + C in integers, with 8 rows"},
    {"mma.sync.aligned{.m8n8k4,.m16n8k4,.m16n8k8,.m16n8k16}.row.col{.rn,}.f64.f64.f64.f64",
     "{d:64}, {a:64}, {b:64}, {c:64}", pick_mma_f64, "D = A * B + C in double precision"},
};

}  // namespace

const Section sections::RARE_MMA{"Rarer: products of matrices", ROWS};

}  // namespace machine
