// mma.sync that no kernel of this repository has: 8 rows, integers of 4 bits and single bits, a sparse
// A, and double precision. It knows nothing of how mma() multiplies.
#include <algorithm>
#include <bit>
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

// ---- Products that are made of those that mma() has ---------------------------------------------

// The rows of A, or the columns of B, along K. Of a fragment (matrix.h) they are 16 bytes each.
constexpr uint32_t FRAGMENT_BYTES = 16, CHUNK_BYTES = 32, LONGEST = 128;
struct Lines {
  uint8_t bytes[16][LONGEST];
};

// Register r has fragment r / (count / 8) of lines from 8 * (r % (count / 8)) on.
Lines gather(uint32_t* const rows[], uint32_t count, uint32_t bytes) {
  Lines lines{};
  const uint32_t groups = count / 8;
  for (uint32_t r = 0; r < groups * (bytes / FRAGMENT_BYTES); ++r) {
    const auto* const fragment = reinterpret_cast<const uint8_t*>(rows[r]);
    for (uint32_t i = 0; i < 8; ++i) {
      std::memcpy(lines.bytes[r % groups * 8 + i] + r / groups * FRAGMENT_BYTES,
                  fragment + i * FRAGMENT_BYTES, FRAGMENT_BYTES);
    }
  }
  return lines;
}

// Numbers of four bits, the lower first, as numbers of eight.
void widen(Lines* lines, uint32_t bytes, bool is_signed) {
  for (auto& line : lines->bytes) {
    for (uint32_t i = bytes; i-- > 0;) {
      const uint8_t both = line[i];
      const auto extend = [is_signed](uint8_t high) {  // high: in the upper four bits
        return static_cast<uint8_t>(is_signed ? static_cast<int8_t>(high) >> 4 : high >> 4);
      };
      line[2 * i] = extend(static_cast<uint8_t>(both << 4));
      line[2 * i + 1] = extend(both & 0xf0);
    }
  }
}

struct PackedQualifiers {
  MatrixType a : 4, b : 4;
  AccumulatorType accumulator : 2;
  bool saturates : 1, nibbles : 1, signed_a : 1, signed_b : 1;
  bool sparse : 1, few_rows : 1;  // 8
  uint8_t bytes;                  // of K, before nibbles are widened
};

// D = A * B + C of `bytes` bytes of K, the chunks one after the other. Of 8 rows D and C have half
// the registers.
void multiply_lines(const PackedQualifiers& of, const Lines& a, const Lines& b, uint32_t bytes,
                    uint32_t* const d[], const uint32_t* const c[]) {
  static const uint32_t ZEROS[LANES] = {};
  uint32_t lower[2][LANES];
  const bool all = !of.few_rows;
  uint32_t* const to[4] = {d[0], d[1], all ? d[2] : lower[0], all ? d[3] : lower[1]};
  const uint32_t* from[4] = {c[0], c[1], all ? c[2] : ZEROS, all ? c[3] : ZEROS};
  for (uint32_t at = 0; at < bytes; at += CHUNK_BYTES) {
    alignas(64) uint32_t left[4][LANES], right[2][LANES];
    const uint32_t halves = std::min(CHUNK_BYTES, bytes - at) / FRAGMENT_BYTES;
    const auto copy = [at](const Lines& lines, uint32_t group, uint32_t half, uint32_t* fragment) {
      for (uint32_t i = 0; i < 8; ++i) {
        std::memcpy(fragment + 4 * i, lines.bytes[group * 8 + i] + at + half * FRAGMENT_BYTES,
                    FRAGMENT_BYTES);
      }
    };
    for (uint32_t r = 0; r < 2 * halves; ++r) copy(a, r % 2, r / 2, left[r]);
    for (uint32_t r = 0; r < halves; ++r) copy(b, 0, r, right[r]);
    const uint32_t* const lefts[4] = {left[0], left[1], left[2], left[3]};
    const uint32_t* const rights[2] = {right[0], right[1]};
    const int k = static_cast<int>(halves * FRAGMENT_BYTES) / element_bytes(of.a);
    mma({of.a, of.b, of.accumulator, k, of.saturates}, to, lefts, rights, from);
    std::copy_n(to, 4, from);
  }
}

// The rows of a sparse A with their zeros, `bytes` bytes of K. Of each four units, of 16 bits, or of 8
// bits of smaller elements, two are there; four bits of `metadata` say which.
// Source: PTX ISA #warp-level-matrix-instructions-for-sparse-mma; which lane has which bits was checked
// against CUTLASS's own reordering.
Lines expand(const Lines& packed, uint32_t bytes, uint32_t unit, const uint32_t* metadata,
             uint32_t selector) {
  Lines lines{};
  const uint32_t units = bytes / unit;
  for (uint32_t row = 0; row < 16; ++row) {
    const uint32_t quad = row % 8 * 4, lower = row / 8;
    for (uint32_t group = 0; group < units / 4; ++group) {
      uint32_t lane, shift;
      if (unit == 2) {  // 16 units of both rows in a word
        lane = units == 16 ? selector : 2 * selector + group / 4;
        shift = 16 * lower + group % 4 * 4;
      } else {  // 32 units of one row
        lane = units == 32 ? 2 * selector + lower : lower + 2 * (group / 8);
        shift = group % 8 * 4;
      }
      const uint32_t places = metadata[quad + lane] >> shift;
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t to = group * 4 + (places >> 2 * i & 3), from = group * 2 + i;
        std::memcpy(lines.bytes[row] + to * unit, packed.bytes[row] + from * unit, unit);
      }
    }
  }
  return lines;
}

// {d}, {a}, {b}, {c}; of a sparse A also metadata and selector.
Step mma_packed(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<PackedQualifiers>();
  uint32_t* rows[20] = {};
  for (uint32_t i = 0; i < inst.slot_count; ++i) rows[i] = row_of(warp, inst.slots[i]);
  const uint32_t accumulators = of.few_rows ? 2 : accumulator_registers(of.accumulator, 8);
  const uint32_t height = of.few_rows ? 8 : 16, a_bytes = of.sparse ? of.bytes / 2u : of.bytes;
  uint32_t** const a = rows + accumulators;
  uint32_t** const b = a + height / 8 * a_bytes / FRAGMENT_BYTES;
  uint32_t** const c = b + of.bytes / FRAGMENT_BYTES;
  Lines left = gather(a, height, a_bytes), right = gather(b, 8, of.bytes);
  if (of.sparse) {
    const uint32_t unit = std::min(element_bytes(of.a), 2);
    left = expand(left, of.bytes, unit, c[accumulators], c[accumulators + 1][0]);
  }
  uint32_t bytes = of.bytes;
  if (of.nibbles) {
    widen(&left, bytes, of.signed_a);
    widen(&right, bytes, of.signed_b);
    bytes *= 2;
  }
  multiply_lines(of, left, right, bytes, rows, c);
  warp.multiplies = true;
  return Step::next;
}

Handler pick_packed(Opcode& opcode) {
  opcode.convergent = true;
  const ProductQualifiers product = product_qualifiers(opcode);
  PackedQualifiers of{};
  of.a = product.a;
  of.b = product.b;
  of.accumulator = product.accumulator;
  of.saturates = product.saturates;
  of.signed_a = opcode.type(1) == Type::s4;
  of.signed_b = opcode.type(2) == Type::s4;
  of.nibbles = of.signed_a || opcode.type(1) == Type::u4;
  if (of.nibbles) of.a = of.b = MatrixType::S8;
  of.sparse = opcode.text.starts_with("mma.sp");
  const std::string_view shape = shape_of(opcode);
  of.few_rows = shape.starts_with("m8");
  const uint32_t k = extent(shape, 'k');
  const uint32_t bytes = of.nibbles ? k / 2 : k * element_bytes(of.a);
  const bool same_width = element_bytes(of.a) == element_bytes(of.b) &&
                          (opcode.type(2) == Type::s4 || opcode.type(2) == Type::u4) == of.nibbles;
  of.bytes = static_cast<uint8_t>(bytes);
  opcode.set(of);
  const bool fits = of.sparse ? bytes == 32 || bytes == 64 : bytes == 16 || bytes == 32;
  return fits && same_width && opcode.type(0) == opcode.type(3) ? mma_packed : nullptr;
}

// ---- Single bits --------------------------------------------------------------------------------

struct BitQualifiers {
  uint8_t m, bytes;  // of K
  bool ands;
};

Step mma_bits(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<BitQualifiers>();
  uint32_t* rows[16] = {};
  for (uint32_t i = 0; i < inst.slot_count; ++i) rows[i] = row_of(warp, inst.slots[i]);
  const uint32_t bytes = of.bytes, accumulators = of.m / 4;
  uint32_t sums[4][LANES];
  uint32_t** const a = rows + accumulators;
  uint32_t** const b = a + of.m / 8 * bytes / FRAGMENT_BYTES;
  uint32_t** const c = b + bytes / FRAGMENT_BYTES;
  const Lines left = gather(a, of.m, bytes), right = gather(b, 8, bytes);
  for (uint32_t r = 0; r < accumulators; ++r) {
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      const uint8_t* const x = left.bytes[r / 2 * 8 + lane / 4];
      const uint8_t* const y = right.bytes[lane % 4 * 2 + r % 2];
      sums[r][lane] = c[r][lane];
      for (uint32_t i = 0; i < bytes; ++i) {
        sums[r][lane] += std::popcount(static_cast<uint8_t>(of.ands ? x[i] & y[i] : x[i] ^ y[i]));
      }
    }
  }
  for (uint32_t r = 0; r < accumulators; ++r) std::copy_n(sums[r], LANES, rows[r]);
  warp.multiplies = true;
  return Step::next;
}

Handler pick_bits(Opcode& opcode) {
  opcode.convergent = true;
  opcode.set(BitQualifiers{static_cast<uint8_t>(extent(shape_of(opcode), 'm')),
                           static_cast<uint8_t>(extent(shape_of(opcode), 'k') / 8),
                           opcode.has(".and")});
  return mma_bits;
}

// ---- Double precision ---------------------------------------------------------------------------

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
  opcode.set(DoubleShape{static_cast<uint16_t>(extent(shape_of(opcode), 'm')),
                         static_cast<uint16_t>(extent(shape_of(opcode), 'k'))});
  return mma_sync_f64;
}

const Row ROWS[] = {
    {"mma.sync.aligned{.m8n8k16,.m8n8k32,.m16n8k32,.m16n8k64}.row.col{.satfinite,}.s32"
     "{.s8,.u8,.s4,.u4}{.s8,.u8,.s4,.u4}.s32",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_packed,
     "D = A * B + C in integers of 4 bits, or with 8 rows"},
    {"mma{.sp,.sp::ordered_metadata}.sync.aligned"
     "{.m16n8k8,.m16n8k16,.m16n8k32,.m16n8k64,.m16n8k128}.row.col{.satfinite,}{.f32,.f16,.s32}{."
     "bf16,.f16,.tf32,.e4m3,.e5m2,.s8,.u8,.s4,.u4}"
     "{.bf16,.f16,.tf32,.e4m3,.e5m2,.s8,.u8,.s4,.u4}{.f32,.f16,.s32}",
     "{d:32}, {a:32}, {b:32}, {c:32}, metadata:32, selector:32", pick_packed,
     "D = A * B + C, where half of A is 0 and left out"},
    {"mma.sync.aligned{.m8n8k128,.m16n8k128,.m16n8k256}.row.col.s32.b1.b1.s32{.xor,.and}.popc",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_bits, "D = how many bits of A op B are 1, + C"},
    {"wmma.mma.sync.aligned.row.col.m8n8k32{.satfinite,}.s32{.s4,.u4}{.s4,.u4}.s32",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_packed, "as mma"},
    {"wmma.mma{.xor,.and}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_bits, "as mma"},
    {"wmma.mma.sync.aligned{.row,.col}{.row,.col}.m8n8k4{.rn,}.f64.f64.f64.f64",
     "{d:64}, {a:64}, {b:64}, {c:64}", pick_mma_f64, "as mma"},
    {"mma.sync.aligned{.m8n8k4,.m16n8k4,.m16n8k8,.m16n8k16}.row.col{.rn,}.f64.f64.f64.f64",
     "{d:64}, {a:64}, {b:64}, {c:64}", pick_mma_f64, "D = A * B + C in double precision"},
};

}  // namespace

const Section sections::RARE_MMA{"Rarer: products of matrices", ROWS};

}  // namespace machine
