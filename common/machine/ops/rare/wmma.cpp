// wmma.load, wmma.store and wmma.mma: C++'s nvcuda::wmma. PTX leaves open which lane has which element
// of a fragment; here they lie as mma.sync has them, so that wmma.mma is made of it.
// Source: PTX ISA #warp-level-matrix-instructions-wmma-load, -wmma-store, -wmma-mma
#include <algorithm>
#include <cstring>

#include "common/machine/ops/address.h"
#include "common/machine/ops/number.h"
#include "common/machine/ops/product.h"

namespace machine {
namespace {

constexpr std::string_view SHAPES[] = {".m16n16k16", ".m8n32k16", ".m32n8k16", ".m16n16k8",
                                       ".m8n8k4",    ".m8n8k32",  ".m8n8k128"};
uint8_t shape_index(const Opcode& opcode) {
  return (which(opcode, SHAPES) - 1) & 15;
}
uint32_t size_of(uint8_t shape, char letter) {
  return extent(SHAPES[shape], letter);
}

uint8_t element_bits(Type type) {
  if (type == Type::b1) return 1;
  if (type == Type::s4 || type == Type::u4) return 4;
  return type == Type::tf32 ? 32 : static_cast<uint8_t>(8 * bytes_of(type));
}

// ---- Fragments ----------------------------------------------------------------------------------

enum class Matrix : uint8_t { a, b, accumulator };

struct FragmentQualifiers {
  Where where;
  uint8_t shape : 4;
  Matrix matrix : 2;
  bool by_column : 1;  // the matrix lies in memory column after column
  uint8_t bits;        // of an element
  uint8_t registers;
};

struct Place {
  uint32_t row, column;  // of the matrix: M x K, K x N or M x N
};

// Where the first element of a lane's register comes from. The registers of A and B are fragments of 8
// lines by 16 bytes of K, or four doubles, in mma.sync's order; those behind the last repeat the first.
Place operand_place(const FragmentQualifiers& of, uint32_t index, uint32_t lane) {
  const bool is_a = of.matrix == Matrix::a;
  const uint32_t k = size_of(of.shape, 'k'), lines = size_of(of.shape, is_a ? 'm' : 'n');
  const uint32_t in_register = std::max(32u / of.bits, 1u), chunks = k / (4 * in_register);
  index %= lines / 8 * chunks;
  uint32_t tile, chunk;
  if (is_a && lines > 8) {
    const uint32_t in_pair = index % (2 * chunks);
    tile = index / (2 * chunks) * 2 + in_pair % 2;
    chunk = in_pair / 2;
  } else {
    tile = index / chunks;
    chunk = index % chunks;
  }
  const uint32_t line = tile * 8 + lane / 4, at = (chunk * 4 + lane % 4) * in_register;
  return is_a ? Place{line, at} : Place{at, line};
}

// Of an accumulator's tile of 16 x 8, or 8 x 8, a register has one element, or two of f16.
Place accumulator_place(const FragmentQualifiers& of, uint32_t index, uint32_t lane) {
  const uint32_t elements = of.bits == 16 ? 1 : 2;  // registers of a row of a tile
  const uint32_t halves = size_of(of.shape, 'm') > 8 ? 2 : 1, columns = size_of(of.shape, 'n') / 8;
  const uint32_t tile = index / (halves * elements), in_tile = index % (halves * elements);
  return {tile / columns * 16 + in_tile / elements * 8 + lane / 4,
          tile % columns * 8 + lane % 4 * 2 + in_tile % elements};
}

// {d}, [p], stride? or [p], {s}, stride?: at once what lies side by side of a register, all of its
// elements or one.
template <bool STORES>
Step wmma_access(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto of = inst.as<FragmentQualifiers>();
  const Slot* const values = inst.slots + (STORES ? 1 : 0);
  const Slot& base = inst.slots[STORES ? 0 : of.registers];
  const Slot* const stride = inst.slots + of.registers + 1;
  const bool has_stride = inst.slot_count > of.registers + 1u;
  const bool sums = of.matrix == Matrix::accumulator, is_a = of.matrix == Matrix::a;
  const uint32_t rows = size_of(of.shape, is_a || sums ? 'm' : 'k');
  const uint32_t columns = size_of(of.shape, is_a ? 'k' : 'n');
  const uint32_t packed = std::max(32u / of.bits, 1u);
  const bool along_rows = is_a || sums;  // a register's elements are neighbours in a row
  const bool together = along_rows != of.by_column;
  const uint32_t parts = together ? 1 : packed, step = together ? packed : 1;
  const uint32_t bytes = step * of.bits / 8;
  for (uint32_t i = 0; i < of.registers * parts; ++i) {
    const uint32_t r = i / parts, part = i % parts, bit = part * of.bits;
    Addresses a;
    a.fill(FULL, [&](uint32_t lane) {
      Place at = sums ? accumulator_place(of, r, lane) : operand_place(of, r, lane);
      (along_rows ? at.column : at.row) += part;
      const uint64_t pitch = has_stride     ? value_of(warp, *stride, lane)
                             : of.by_column ? rows
                                            : columns;
      const uint64_t element =
          of.by_column ? at.column * pitch + at.row : at.row * pitch + at.column;
      return value_of(warp, base, lane) + static_cast<uint64_t>(int64_t{base.offset}) +
             element * of.bits / 8;
    });
    resolve_computed(warp, of.where, mask, bytes, STORES ? Access::write : Access::read,
                     STORES ? "wmma.store" : "wmma.load", a);
    if (!STORES) look_for_poison(warp, of.where, mask, a, bytes);
    for_lanes(mask, [&](uint32_t lane) {
      auto* const memory = reinterpret_cast<void*>(a.at[lane]);
      const uint64_t before = STORES || bit != 0 ? value_of(warp, values[r], lane) : 0;
      uint64_t value = STORES ? before >> bit : 0;
      STORES ? std::memcpy(memory, &value, bytes) : std::memcpy(&value, memory, bytes);
      if (!STORES) set_value(warp, values[r], 1u << lane, before | value << bit);
    });
  }
  return Step::next;
}

template <bool STORES>
Handler pick_fragment(Opcode& opcode) {
  opcode.convergent = true;
  const std::vector<Operand>& operands = *opcode.operands;
  if (operands.size() <= STORES) return nullptr;
  FragmentQualifiers of{};
  of.where = where(opcode);
  of.shape = shape_index(opcode) & 15;
  of.matrix = opcode.has(".a") ? Matrix::a : opcode.has(".b") ? Matrix::b : Matrix::accumulator;
  of.by_column = opcode.has(".col");
  of.bits = element_bits(opcode.type());
  of.registers = static_cast<uint8_t>(operands[STORES].parts.size());
  opcode.set(of);
  return wmma_access<STORES>;
}

// ---- The product --------------------------------------------------------------------------------

struct WmmaQualifiers {
  MatrixType a : 4, b : 4;
  AccumulatorType d : 2, c : 2;
  uint8_t shape : 3;
  bool saturates : 1;
};

// Of f16 there are always eight registers, with each element once, twice or four times.
uint32_t operand_registers(MatrixType type, uint32_t lines, uint32_t chunks) {
  return type == MatrixType::F16 ? 8 : lines / 8 * chunks;
}

// A tile's registers of fp32 or integers, from what C has.
void take_tile(AccumulatorType type, uint32_t* const c[], uint32_t halves,
               uint32_t (*tile)[LANES]) {
  for (uint32_t i = 0; i < 2 * halves; ++i) {
    if (type != AccumulatorType::F16) {
      std::copy_n(c[i], LANES, tile[i]);
      continue;
    }
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      const uint32_t both = c[i / 2][lane];
      tile[i][lane] =
          std::bit_cast<uint32_t>(decode<F16>(i % 2 == 0 ? lower_half(both) : upper_half(both)));
    }
  }
}
void put_tile(AccumulatorType type, const uint32_t (*tile)[LANES], uint32_t halves,
              uint32_t* const d[]) {
  for (uint32_t i = 0; i < 2 * halves; ++i) {
    if (type != AccumulatorType::F16) {
      std::copy_n(tile[i], LANES, d[i]);
    } else if (i % 2 == 0) {
      for (uint32_t lane = 0; lane < LANES; ++lane) {
        d[i / 2][lane] = pack_x2(f16_from_f32(std::bit_cast<float>(tile[i + 1][lane])),
                                 f16_from_f32(std::bit_cast<float>(tile[i][lane])));
      }
    }
  }
}

// {d}, {a}, {b}, {c}: tile by tile of 16 x 8, or 8 x 8.
Step wmma_mma(Warp& warp, const Inst& inst, uint32_t) {
  static const uint32_t ZEROS[LANES] = {};
  const auto of = inst.as<WmmaQualifiers>();
  const uint32_t m = size_of(of.shape, 'm'), n = size_of(of.shape, 'n');
  const auto k = static_cast<int>(size_of(of.shape, 'k'));
  const uint32_t chunks = static_cast<uint32_t>(k * element_bytes(of.a)) / 16;
  const uint32_t halves = m > 8 ? 2 : 1;
  const auto registers = [](AccumulatorType type) {  // of a half of a tile
    return type == AccumulatorType::F16 ? 1u : 2u;
  };
  uint32_t* rows[32] = {};
  for (uint32_t i = 0; i < inst.slot_count; ++i) rows[i] = row_of(warp, inst.slots[i]);
  const uint32_t tiles = m / (8 * halves) * (n / 8);
  uint32_t** const a = rows + tiles * halves * registers(of.d);
  uint32_t** const b = a + operand_registers(of.a, m, chunks);
  uint32_t** const c = b + operand_registers(of.b, n, chunks);
  const bool integers = of.d == AccumulatorType::S32;
  const Mma shape = {of.a, of.b, integers ? AccumulatorType::S32 : AccumulatorType::F32, k,
                     of.saturates};
  uint32_t sums[4][4][LANES];  // by tile: there are at most four
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    const uint32_t down = tile / (n / 8), across = tile % (n / 8);
    const uint32_t* left[4];
    const uint32_t* right[2];
    for (uint32_t i = 0; i < 2 * chunks; ++i) {
      left[i] = halves == 2 ? a[down * 2 * chunks + i] : i % 2 == 0 ? a[i / 2] : ZEROS;
    }
    for (uint32_t i = 0; i < chunks; ++i) right[i] = b[across * chunks + i];
    auto& sum = sums[tile];
    std::memset(sum, 0, sizeof sum);
    take_tile(of.c, c + tile * halves * registers(of.c), halves, sum);
    uint32_t* const to[4] = {sum[0], sum[1], sum[2], sum[3]};
    mma(shape, to, left, right, to);
  }
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    put_tile(of.d, sums[tile], halves, rows + tile * halves * registers(of.d));
  }
  warp.multiplies = true;
  return Step::next;
}

// Of f16 only the types of D and C are written, of others those of A and B between them too.
Handler pick_wmma(Opcode& opcode) {
  opcode.convergent = true;
  const bool f16 = opcode.types.size() == 2;
  WmmaQualifiers of{};
  of.a = f16 ? MatrixType::F16 : matrix_type(opcode.type(1));
  of.b = f16 ? MatrixType::F16 : matrix_type(opcode.type(2));
  of.d = accumulator_type(opcode.type(0));
  of.c = accumulator_type(opcode.type(f16 ? 1 : 3));
  of.shape = shape_index(opcode) & 7;
  of.saturates = opcode.has(".satfinite");
  opcode.set(of);
  return wmma_mma;
}

#define LAYOUT "{.row,.col}"
#define WMMA_SHAPE "{.m16n16k16,.m8n32k16,.m32n8k16,.m16n16k8,.m8n8k4,.m8n8k32,.m8n8k128}"
#define FULL_SHAPE "{.m16n16k16,.m8n32k16,.m32n8k16}"
#define WMMA_SPACE "{.global,.shared,.shared::cta,}"

const Row ROWS[] = {
    {"wmma.load{.a,.b}.sync.aligned" LAYOUT WMMA_SHAPE WMMA_SPACE
     "{.f16,.bf16,.tf32,.f64,.s8,.u8,.s4,.u4,.b1}",
     "{d:x}, [p], stride:32?", pick_fragment<false>, "load A or B of a warp's product"},
    {"wmma.load.c.sync.aligned" LAYOUT WMMA_SHAPE WMMA_SPACE "{.f16,.f32,.f64,.s32}",
     "{d:x}, [p], stride:32?", pick_fragment<false>, "load C"},
    {"wmma.store.d.sync.aligned" LAYOUT WMMA_SHAPE WMMA_SPACE "{.f16,.f32,.f64,.s32}",
     "[p], {s:x}, stride:32?", pick_fragment<true>, "store D"},
    {"wmma.mma.sync.aligned" LAYOUT LAYOUT FULL_SHAPE "{.f16,.f32}{.f16,.f32}{.satfinite,}",
     "{d:x}, {a:32}, {b:32}, {c:x}", pick_wmma, "D = A * B + C of f16"},
    {"wmma.mma.sync.aligned" LAYOUT LAYOUT FULL_SHAPE ".f32.bf16.bf16.f32",
     "{d:x}, {a:32}, {b:32}, {c:x}", pick_wmma, "the same of bf16"},
    {"wmma.mma.sync.aligned" LAYOUT LAYOUT ".m16n16k8.f32.tf32.tf32.f32",
     "{d:x}, {a:32}, {b:32}, {c:x}", pick_wmma, "the same of tf32"},
    {"wmma.mma.sync.aligned" LAYOUT LAYOUT FULL_SHAPE ".s32{.s8,.u8}{.s8,.u8}.s32{.satfinite,}",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_wmma, "the same of integers"},
};

}  // namespace

const Section sections::RARE_WMMA{"Rarer: C++'s wmma", ROWS};

}  // namespace machine
