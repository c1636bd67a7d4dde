// The arithmetic and the layouts of mma.sync, wgmma.mma_async, ldmatrix, stmatrix and movmatrix, as
// functions of register rows and bytes. No state, no checks: who calls has decided that an
// instruction exists and that its addresses may be read.
//
// Words used throughout:
//   row       a register of a warp: 32 lanes of 4 bytes (8 for f64)
//   fragment  an 8x8 matrix of 16-bit elements, or eight rows of 16 bytes of any type, in one row:
//             lane 4r + w holds 4-byte word w of matrix row r. ldmatrix produces it, A and B of
//             mma.sync and A of wgmma consist of it.
//   half      wgmma's K is 32 bytes of a row: two halves of 16 bytes, a fragment each
// Addresses are shared offsets: the low 24 bits of a shared::cluster address. `window` is the host
// address of offset 0, which is not itself readable below the CTA's first byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace machine {

enum class MatrixType : uint8_t { BF16, F16, TF32, E4M3, E5M2, S8, U8 };
enum class AccumulatorType : uint8_t { F32, F16, S32 };

constexpr int element_bytes(MatrixType type) {
  if (type == MatrixType::TF32) return 4;
  return type == MatrixType::BF16 || type == MatrixType::F16 ? 2 : 1;
}

constexpr int wgmma_k(MatrixType type) {
  return 32 / element_bytes(type);
}

// Registers of a warp's accumulator for `n` columns: 16 rows (wgmma: the warp's own) by n.
constexpr int accumulator_registers(AccumulatorType type, int n) {
  return type == AccumulatorType::F16 ? n / 4 : n / 2;
}

struct Segment {
  uint32_t address, bytes;
};

// "0x4000004000010040: start 0x400, LBO 16, SBO 1024, 128-byte swizzle"
std::string descriptor_text(uint64_t descriptor);

// An operand of wgmma in shared memory, as its descriptor says: mn is the index along M (of A) or
// N (of B), k the index along K, in elements.
// Source: PTX ISA #asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor,
// #asynchronous-warpgroup-level-canonical-layouts.
class MatrixView {
 public:
  // mn_major: imm-trans is 1, which exists for BF16 and F16 only.
  MatrixView(uint64_t descriptor, MatrixType type, bool mn_major);

  MatrixType type() const { return type_; }
  bool mn_major() const { return mn_major_; }

  uint32_t address(int mn, int k) const;

  // The 16 bytes that are row `row` (0..7: mn % 8 if K-major, k % 8 if MN-major) of the fragment at
  // mn = 8 * group and the given half of K.
  uint32_t chunk_address(int group, int half, int row) const {
    const uint32_t linear = fragment_address(group, half) + row * pitch_;
    return linear ^ (((linear - pattern_start_) >> 7 & swizzle_mask_) << 4);
  }

  // Whether all that one instruction reads of `count` (a multiple of 8) values of mn from first_mn
  // (another) on lies within [begin, end).
  bool inside(int first_mn, int count, uint32_t begin, uint32_t end) const;

  // From the first to the last byte read, and what is read, in order and without overlap. The
  // second one wants the operand within the descriptor's reach, [0, 256 KiB).
  Segment extent(int first_mn, int count) const;
  void append_segments(int first_mn, int count, std::vector<Segment>& segments) const;

 private:
  uint32_t fragment_address(int group, int half) const {
    return start_ + group % groups_per_atom_ * 16 + group / groups_per_atom_ * atom_stride_ +
           half * half_stride_;
  }

  MatrixType type_;
  bool mn_major_;
  uint32_t start_;
  uint32_t pitch_;            // between rows of a fragment: the swizzle's width, 16 without
  uint32_t pattern_start_;    // where in 1024 bytes the swizzle pattern begins
  uint32_t swizzle_mask_;     // XOR of this many of bits 7..9 into bits 4..6
  uint32_t groups_per_atom_;  // fragments side by side in one swizzled row; 1 if K-major
  uint32_t atom_stride_;      // from one such set of groups to the next
  uint32_t half_stride_;
};

// Operands ready to multiply: floats, in which 8-bit integers are exact. A step is what one element
// of every 4-byte word of a fragment makes: step s is element s % (elements a word) of the words of
// half s / (elements a word). So k is 4 * steps.
// A of one warp: lanes[s][i] is the fragment of matrix rows from 8 * i on, element by element.
struct OperandA {
  int steps;  // 1 to 8
  alignas(64) float lanes[8][2][32];
};

// B: lanes[n / 8][s][8 * w + 4 * j + t] is the element of word w of column n / 8 * 8 + 2 * t + j.
// Lane l takes the floats from 8 * w + 4 * j on, at l % 4, for its register j.
struct OperandB {
  int steps, n;
  alignas(64) float lanes[256 / 8][8][32];
};

// A of warp 0..3 of the warpgroup from shared memory, or from 4 rows. `negate`: the product of
// imm-scale-a and imm-scale-b is -1.
void decode_a(const MatrixView& view, int warp, const uint8_t* window, bool negate, OperandA& a);
void decode_a(const uint32_t* const rows[], int halves, MatrixType type, bool negate, OperandA& a);

// B of the warpgroup; n: a multiple of 8 up to 256.
void decode_b(const MatrixView& view, int n, const uint8_t* window, OperandB& b);

// D = A * B + (scale_d ? D : 0) for one warp, d being its accumulator_registers(type, b.n) rows.
// F32 adds one product after the other to D in float, in an order of its own: what silicon gives
// wherever all partial sums are exact; elsewhere that truncates in ways of its own. F16 does the
// same and rounds to nearest once, at the end. S32 is exact and wraps or, with `saturate`
// (.satfinite), clamps at the end.
void multiply(const OperandA& a, const OperandB& b, AccumulatorType type, bool scale_d,
              bool saturate, uint32_t* const d[]);

// The same for wgmma of e4m3 to F32 as an H200 does it (tests/golden/sums.h), bit for bit: products and D
// are cut off toward zero at 2^-13 of the largest of them, added exactly, and the sum is cut off to 14
// bits. With a NaN among the operands as multiply().
void multiply_e4m3(const OperandA& a, const OperandB& b, bool scale_d, uint32_t* const d[]);

// mma.sync.m16n8k{k}: k is 4 or 8 (TF32), 8 or 16 (16-bit types), 16 or 32 (8-bit types), that is
// 16 or 32 bytes. A has 2 or 4 rows, B 1 or 2, C and D accumulator_registers(type, 8). D may share
// rows with A, B and C.
// Source: PTX ISA #warp-level-matrix-instructions-mma
struct Mma {
  MatrixType a_type, b_type;
  AccumulatorType accumulator;
  int k;
  bool saturate;
};
void mma(const Mma& shape, uint32_t* const d[], const uint32_t* const a[],
         const uint32_t* const b[], const uint32_t* const c[]);

// mma.sync.m{m}n8k{k}.f64: m8n8k4 and m16n8k{4,8,16}. Rows of 32 doubles: A m * k / 32, B k / 4,
// C and D m / 4.
void mma_f64(int m, int k, double* const d[], const double* const a[], const double* const b[],
             const double* const c[]);

// ldmatrix / stmatrix .m8n8.x{count}.b16: row r of matrix i is at chunks[8 * i + r], which is the
// address that lane 8 * i + r gives; those of lanes from 8 * count on are not looked at.
// Source: PTX ISA #warp-level-matrix-instructions-ldmatrix, -stmatrix, -movmatrix
void load_matrices(int count, bool transpose, const uint8_t* const chunks[], uint32_t* const d[]);
void store_matrices(int count, bool transpose, uint8_t* const chunks[], const uint32_t* const s[]);

// movmatrix.sync.aligned.m8n8.trans.b16; d may be s.
void transpose_matrix(const uint32_t* s, uint32_t* d);

}  // namespace machine
