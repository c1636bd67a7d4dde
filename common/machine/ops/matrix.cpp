// The arithmetic and the layouts of matrices. It knows no warps and no instructions, only rows and
// bytes.
#include "common/machine/ops/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/machine/ops/number.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace machine {
namespace {

// --- Vectors -------------------------------------------------------------------------------------

// A quad is four floats, aligned to 16 bytes.
#if defined(__AVX512F__)
using Vector = __m512;
inline Vector load(const void* p) {
  return _mm512_loadu_ps(p);
}
inline void store(void* p, Vector v) {
  _mm512_storeu_ps(p, v);
}
// With masks of all lanes: of the forms without one GCC 12 says that they use what nobody has set.
inline Vector load_quad(const float* p) {
  return _mm512_maskz_broadcast_f32x4(0xffff, _mm_load_ps(p));
}
inline Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
template <int W>
inline Vector spread(Vector v) {  // word W of each quad, for all four lanes of it
  return _mm512_maskz_permute_ps(0xffff, v, W * 0x55);
}
#elif defined(__AVX2__) && defined(__FMA__)
using Vector = __m256;
inline Vector load(const void* p) {
  return _mm256_loadu_ps(static_cast<const float*>(p));
}
inline void store(void* p, Vector v) {
  _mm256_storeu_ps(static_cast<float*>(p), v);
}
inline Vector load_quad(const float* p) {
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
}
inline Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
template <int W>
inline Vector spread(Vector v) {
  return _mm256_permute_ps(v, W * 0x55);
}
#else
typedef float Vector __attribute__((vector_size(16)));
inline Vector load(const void* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(void* p, Vector v) {
  std::memcpy(p, &v, sizeof v);
}
inline Vector load_quad(const float* p) {
  return load(p);
}
// Rounds as the fused form does: products of two elements are exact in float, over- and underflow
// apart.
inline Vector multiply_add(Vector a, Vector b, Vector c) {
  return a * b + c;
}
template <int W>
inline Vector spread(Vector v) {
  return Vector{v[W], v[W], v[W], v[W]};
}
#endif

constexpr int WIDTH = sizeof(Vector) / sizeof(float);

// --- Fragments -----------------------------------------------------------------------------------

// A fragment from its eight rows of 16 bytes; `transpose`: as 16-bit elements.
inline void read_rows(const uint8_t* const chunks[8], bool transpose, uint32_t* fragment) {
  if (!transpose) {
    for (int r = 0; r < 8; ++r) std::memcpy(fragment + 4 * r, chunks[r], 16);
    return;
  }
#if defined(__SSE2__)
  // Each round interleaves rows i and i + 4; three of them transpose.
  __m128i rows[8], next[8];
  for (int r = 0; r < 8; ++r)
    rows[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(chunks[r]));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      next[2 * i] = _mm_unpacklo_epi16(rows[i], rows[i + 4]);
      next[2 * i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 4]);
    }
    for (int r = 0; r < 8; ++r) rows[r] = next[r];
  }
  auto* to = reinterpret_cast<__m128i*>(fragment);
  for (int r = 0; r < 8; ++r) _mm_storeu_si128(to + r, rows[r]);
#else
  uint16_t in[8][8], out[8][8];
  for (int r = 0; r < 8; ++r) {
    std::memcpy(in[r], chunks[r], 16);
    for (int c = 0; c < 8; ++c) out[c][r] = in[r][c];
  }
  std::memcpy(fragment, out, sizeof out);
#endif
}

// The fragment of an operand in shared memory, its rows along K whatever the major.
inline void read_fragment(const MatrixView& view, int group, int half, const uint8_t* window,
                          uint32_t* fragment) {
  const uint8_t* chunks[8];
  for (int r = 0; r < 8; ++r) chunks[r] = window + view.chunk_address(group, half, r);
  read_rows(chunks, view.mn_major(), fragment);
}

// Reorders the words of a fragment: word w of row 2 * t + j to 8 * w + 4 * j + t.
inline void order_words(const uint32_t* fragment, uint32_t* words) {
#if defined(__SSE2__)
  const auto* from = reinterpret_cast<const __m128i*>(fragment);
  auto* to = reinterpret_cast<__m128i*>(words);
  for (int j = 0; j < 2; ++j) {
    __m128i rows[4], pairs[4];
    for (int t = 0; t < 4; ++t) rows[t] = _mm_loadu_si128(from + 2 * t + j);
    for (int i = 0; i < 2; ++i) {  // as in read_rows
      pairs[2 * i] = _mm_unpacklo_epi32(rows[i], rows[i + 2]);
      pairs[2 * i + 1] = _mm_unpackhi_epi32(rows[i], rows[i + 2]);
    }
    for (int i = 0; i < 2; ++i) {
      _mm_storeu_si128(to + 4 * i + j, _mm_unpacklo_epi32(pairs[i], pairs[i + 2]));
      _mm_storeu_si128(to + 4 * i + 2 + j, _mm_unpackhi_epi32(pairs[i], pairs[i + 2]));
    }
  }
#else
  for (int row = 0; row < 8; ++row) {
    for (int w = 0; w < 4; ++w) words[8 * w + 4 * (row % 2) + row / 2] = fragment[4 * row + w];
  }
#endif
}

// Element e of a word as a float.
template <MatrixType TYPE>
inline float element(uint32_t word, int e) {
  if constexpr (TYPE == MatrixType::TF32) return std::bit_cast<float>(word & 0xffffe000);
  if constexpr (TYPE == MatrixType::BF16) return decode<BF16>(word >> 16 * e);
  if constexpr (TYPE == MatrixType::F16) return decode<F16>(word >> 16 * e);
  if constexpr (TYPE == MatrixType::E4M3) return decode<E4M3>(word >> 8 * e);
  if constexpr (TYPE == MatrixType::E5M2) return decode<E5M2>(word >> 8 * e);
  if constexpr (TYPE == MatrixType::S8) return static_cast<int8_t>(word >> 8 * e);
  if constexpr (TYPE == MatrixType::U8) return static_cast<uint8_t>(word >> 8 * e);
}

constexpr int per_word(MatrixType type) {
  return 4 / element_bytes(type);
}

// Element e of 32 words to steps[e * stride], for every e.
template <MatrixType TYPE>
inline void expand(const uint32_t* words, float* steps, int stride) {
  for (int e = 0; e < per_word(TYPE); ++e) {
    for (int l = 0; l < 32; ++l) steps[e * stride + l] = element<TYPE>(words[l], e);
  }
}

// Calls function.operator()<type>().
template <MatrixType... TYPES>
inline void with_one_of(MatrixType type, auto function) {
  ((type == TYPES ? function.template operator()<TYPES>() : void()), ...);
}
inline void with_type(MatrixType type, auto function) {
  using enum MatrixType;
  with_one_of<BF16, F16, TF32, E4M3, E5M2, S8, U8>(type, function);
}

// --- The product ---------------------------------------------------------------------------------

// 16 x 8 accumulators: register 2 * i + j (F16: half j of register i) of lane l is row
// l / 4 + 8 * i, column 2 * (l % 4) + j. A Sum is WIDTH lanes of registers 2 * i and 2 * i + 1.
// Source: PTX ISA #warp-level-matrix-fragment-mma-16816-float,
// #asynchronous-warpgroup-level-matrix-register-fragment-wgmma-64n16-d
struct Sum {
  Vector even, odd;
};

// From C, or zero if that is null or, being integers, is added at the end.
template <AccumulatorType TYPE>
inline Sum begin_sum(const uint32_t* const c[], int i, int lane) {
  if (c == nullptr || TYPE == AccumulatorType::S32) return {Vector{}, Vector{}};
  if constexpr (TYPE == AccumulatorType::F32) {
    return {load(c[2 * i] + lane), load(c[2 * i + 1] + lane)};
  } else {
    float even[WIDTH], odd[WIDTH];
    for (int l = 0; l < WIDTH; ++l) {
      even[l] = decode<F16>(lower_half(c[i][lane + l]));
      odd[l] = decode<F16>(upper_half(c[i][lane + l]));
    }
    return {load(even), load(odd)};
  }
}

typedef int32_t Integers __attribute__((vector_size(sizeof(Vector))));
typedef uint32_t Naturals __attribute__((vector_size(sizeof(Vector))));

// A sum of 32 products of 8 bits each stays below 2^24. c null: zeros.
inline void add_integers(Vector sum, bool saturate, uint32_t* d, const uint32_t* c) {
  const Integers a = __builtin_convertvector(sum, Integers);
  Integers b = {};
  if (c != nullptr) std::memcpy(&b, c, sizeof b);
  Integers total = (Integers)((Naturals)a + (Naturals)b);
  if (saturate) {
    const Integers overflow = ((a ^ total) & (b ^ total)) >> 31;
    total = (total & ~overflow) | ((a >> 31 ^ INT32_MAX) & overflow);
  }
  std::memcpy(d, &total, sizeof total);
}

template <AccumulatorType TYPE>
inline void end_sum(const Sum& sum, bool saturate, uint32_t* const d[], const uint32_t* const c[],
                    int i, int lane) {
  if constexpr (TYPE == AccumulatorType::F32) {
    store(d[2 * i] + lane, sum.even);
    store(d[2 * i + 1] + lane, sum.odd);
  }
  if constexpr (TYPE == AccumulatorType::F16) {
    float even[WIDTH], odd[WIDTH];
    store(even, sum.even);
    store(odd, sum.odd);
    for (int l = 0; l < WIDTH; ++l) {
      d[i][lane + l] = pack_x2(f16_from_f32(odd[l]), f16_from_f32(even[l]));
    }
  }
  if constexpr (TYPE == AccumulatorType::S32) {
    const int r = 2 * i;
    add_integers(sum.even, saturate, d[r] + lane, c != nullptr ? c[r] + lane : nullptr);
    add_integers(sum.odd, saturate, d[r + 1] + lane, c != nullptr ? c[r + 1] + lane : nullptr);
  }
}

// A, spread for all blocks at once: lanes[4 * s + w][i][l] is word w of lane l's row, for step s.
struct Factors {
  int words;
  alignas(64) float lanes[8 * 4][2][32];

  explicit Factors(const OperandA& a) : words(4 * a.steps) {
    for (int s = 0; s < a.steps; ++s) {
      for (int at = 0; at < 2 * 32; at += WIDTH) {
        const Vector row = load(a.lanes[s][0] + at);
        float* const to = lanes[4 * s][0] + at;
        store(to, spread<0>(row));
        store(to + 2 * 32, spread<1>(row));
        store(to + 4 * 32, spread<2>(row));
        store(to + 6 * 32, spread<3>(row));
      }
    }
  }
};

// For both halves of the rows and two vectors of lanes. Not a loop: sums are to stay in registers.
template <class F>
inline void for_sums(F&& f) {
  f(0, 0);
  f(0, 1);
  f(1, 0);
  f(1, 1);
}

// Adds one word's products.
inline void add_products(const float* a, const float* b, Sum (&sums)[2][2]) {
  const Vector even = load_quad(b), odd = load_quad(b + 4);
  for_sums([&](int i, int v) {
    const Vector factor = load(a + 32 * i + WIDTH * v);
    sums[i][v].even = multiply_add(factor, even, sums[i][v].even);
    sums[i][v].odd = multiply_add(factor, odd, sums[i][v].odd);
  });
}

// Two vectors of lanes at a time make eight sums, which hides the latency of their additions.
template <AccumulatorType TYPE>
void multiply_block(const Factors& a, const float* b, bool saturate, uint32_t* const d[],
                    const uint32_t* const c[]) {
  for (int lane = 0; lane < 32; lane += 2 * WIDTH) {
    Sum sums[2][2];
    for_sums([&](int i, int v) { sums[i][v] = begin_sum<TYPE>(c, i, lane + WIDTH * v); });
    for (int w = 0; w < a.words; ++w) add_products(a.lanes[w][0] + lane, b + 8 * w, sums);
    for_sums([&](int i, int v) { end_sum<TYPE>(sums[i][v], saturate, d, c, i, lane + WIDTH * v); });
  }
}

// All blocks of eight columns; c null: zeros.
void multiply_add_rows(const OperandA& a, const OperandB& b, AccumulatorType type, bool saturate,
                       uint32_t* const d[], const uint32_t* const c[]) {
  using enum AccumulatorType;
  const auto multiply = type == F32   ? multiply_block<F32>
                        : type == F16 ? multiply_block<F16>
                                      : multiply_block<S32>;
  const int registers = accumulator_registers(type, 8);
  const Factors factors(a);
  for (int block = 0; block < b.n / 8; ++block) {
    multiply(factors, b.lanes[block][0], saturate, d + block * registers,
             c != nullptr ? c + block * registers : nullptr);
  }
}

// --- e4m3 sums, as an H200 cuts them off ---------------------------------------------------------

constexpr float SMALLEST_POWER = 0x1p-6f;      // of an e4m3: a subnormal's too
constexpr float SMALLEST_LARGEST = 0x1p-113f;  // below it a unit would not be a float
constexpr int KEPT_BITS = 13;                  // below the leading one

inline Integers bits_of(Vector v) {
  Integers bits;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}
inline Vector from_bits(Integers bits) {
  Vector v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
inline Vector all(float value) {
  return Vector{} + value;
}
// Both are 0 or more: they sort as their bits do.
inline Vector larger(Vector x, Vector y) {
  const Integers a = bits_of(x), b = bits_of(y), a_is = a > b;
  return from_bits((a & a_is) | (b & ~a_is));
}
// The power of two below an fp32's magnitude; 0 of a subnormal.
inline Vector power_below(Vector x) {
  return from_bits(bits_of(x) & 0x7f800000);
}

// Of each element the power of two that is its exponent, 0 of 0. False if one is NaN.
bool powers_of(const float* elements, size_t count, float* powers) {
  bool numbers = true;
  for (size_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(elements[i]);
    numbers = numbers && magnitude == magnitude;
    const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) & 0x7f800000);
    powers[i] = magnitude == 0 ? 0 : std::max(power, SMALLEST_POWER);
  }
  return numbers;
}

// One of a lane's accumulators, on its way: the largest exponent as a power of two, then the sum in units
// of 2^-KEPT_BITS of it.
struct CutSum {
  Vector c, largest, per_unit;
  Integers sum;

  void begin(const uint32_t* from) {
    c = from == nullptr ? Vector{} : load(from);
    largest = larger(power_below(c), all(SMALLEST_LARGEST));
  }
  void look(Vector power) { largest = larger(largest, power); }
  void begin_sum() {
    per_unit = all(1 << KEPT_BITS) / largest;
    sum = Integers{};
    add(c);
  }
  void add(Vector x) { sum += __builtin_convertvector(x * per_unit, Integers); }  // toward 0
  void end(uint32_t* to) const {
    const Vector exact =
        __builtin_convertvector(sum, Vector) * (largest * (1.0f / (1 << KEPT_BITS)));
    const Integers cut = bits_of(exact) & ~((1 << (23 - KEPT_BITS)) - 1);
    const Integers is_number = (bits_of(c) & 0x7f800000) < 0x7f800000;
    store(to, from_bits((cut & is_number) | (bits_of(c) & ~is_number)));
  }
};

// Calls visit(factor, element) for word W of every step, of rows i and the columns of register j.
template <int W, class Visit>
inline void for_each_product(const float (*a)[2][32], const float (*b)[32], int i, int j, int lane,
                             const Visit& visit) {
  for (int s = 0; s < wgmma_k(MatrixType::E4M3) / 4; ++s) {
    visit(spread<W>(load(a[s][i] + lane)), load_quad(b[s] + 8 * W + 4 * j));
  }
}
template <class Visit>
inline void for_each_product(const float (*a)[2][32], const float (*b)[32], int i, int j, int lane,
                             const Visit& visit) {
  for_each_product<0>(a, b, i, j, lane, visit);
  for_each_product<1>(a, b, i, j, lane, visit);
  for_each_product<2>(a, b, i, j, lane, visit);
  for_each_product<3>(a, b, i, j, lane, visit);
}

}  // namespace

void multiply_e4m3(const OperandA& a, const OperandB& b, bool scale_d, uint32_t* const d[]) {
  OperandA power_a;
  OperandB power_b;
  const auto blocks = static_cast<size_t>(b.n / 8);
  const bool numbers_a =
      powers_of(a.lanes[0][0], sizeof a.lanes / sizeof(float), power_a.lanes[0][0]);
  const bool numbers_b = powers_of(b.lanes[0][0], blocks * 8 * 32, power_b.lanes[0][0]);
  if (!numbers_a || !numbers_b) return multiply(a, b, AccumulatorType::F32, scale_d, false, d);
  for (size_t block = 0; block < blocks; ++block) {
    for (int r = 0; r < 4; ++r) {
      uint32_t* const at = d[block * 4 + static_cast<size_t>(r)];
      for (int lane = 0; lane < 32; lane += WIDTH) {
        CutSum sum;
        sum.begin(scale_d ? at + lane : nullptr);
        for_each_product(power_a.lanes, power_b.lanes[block], r / 2, r % 2, lane,
                         [&](Vector x, Vector y) { sum.look(x * y); });
        sum.begin_sum();
        for_each_product(a.lanes, b.lanes[block], r / 2, r % 2, lane,
                         [&](Vector x, Vector y) { sum.add(x * y); });
        sum.end(at + lane);
      }
    }
  }
}

// rows[2 * h + i]: the fragment of matrix rows from 8 * i on, half h.
void decode_a(const uint32_t* const rows[], int halves, MatrixType type, bool negate, OperandA& a) {
  a.steps = halves * per_word(type);
  with_type(type, [&]<MatrixType TYPE>() {
    for (int r = 0; r < 2 * halves; ++r) {
      expand<TYPE>(rows[r], a.lanes[r / 2 * per_word(TYPE)][r % 2], 64);
    }
  });
  if (!negate) return;
  for (int s = 0; s < a.steps; ++s) {
    for (int i = 0; i < 64; ++i) a.lanes[s][i / 32][i % 32] = -a.lanes[s][i / 32][i % 32];
  }
}

// --- wgmma ---------------------------------------------------------------------------------------

void decode_a(const MatrixView& view, int warp, const uint8_t* window, bool negate, OperandA& a) {
  alignas(64) uint32_t fragments[4][32];
  const uint32_t* rows[4];
  for (int i = 0; i < 4; ++i) {
    read_fragment(view, 2 * warp + i % 2, i / 2, window, fragments[i]);
    rows[i] = fragments[i];
  }
  decode_a(rows, 2, view.type(), negate, a);
}

void decode_b(const MatrixView& view, int n, const uint8_t* window, OperandB& b) {
  b.steps = 2 * per_word(view.type());
  b.n = n;
  const int fragments = n / 4;
  alignas(64) uint32_t words[256 / 4][32];
  for (int f = 0; f < fragments; ++f) {
    uint32_t fragment[32];
    read_fragment(view, f / 2, f % 2, window, fragment);
    order_words(fragment, words[f]);
  }
  with_type(view.type(), [&]<MatrixType TYPE>() {
    for (int f = 0; f < fragments; ++f) {
      expand<TYPE>(words[f], b.lanes[f / 2][f % 2 * per_word(TYPE)], 32);
    }
  });
}

void multiply(const OperandA& a, const OperandB& b, AccumulatorType type, bool scale_d,
              bool saturate, uint32_t* const d[]) {
  multiply_add_rows(a, b, type, saturate, d, scale_d ? d : nullptr);
}

// --- mma.sync ------------------------------------------------------------------------------------

void mma(const Mma& shape, uint32_t* const d[], const uint32_t* const a[],
         const uint32_t* const b[], const uint32_t* const c[]) {
  const int halves = shape.k * element_bytes(shape.a_type) / 16;
  OperandA left;
  OperandB right;
  decode_a(a, halves, shape.a_type, false, left);
  right.steps = left.steps;
  right.n = 8;
  alignas(64) uint32_t words[2][32];
  for (int h = 0; h < halves; ++h) order_words(b[h], words[h]);
  with_type(shape.b_type, [&]<MatrixType TYPE>() {
    for (int h = 0; h < halves; ++h) {
      expand<TYPE>(words[h], right.lanes[0][h * per_word(TYPE)], 32);
    }
  });
  multiply_add_rows(left, right, shape.accumulator, shape.saturate, d, c);
}

// --- ldmatrix, stmatrix, movmatrix ---------------------------------------------------------------

void load_matrices(int count, bool transpose, const uint8_t* const chunks[], uint32_t* const d[]) {
  for (int i = 0; i < count; ++i) read_rows(chunks + 8 * i, transpose, d[i]);
}

void store_matrices(int count, bool transpose, uint8_t* const chunks[], const uint32_t* const s[]) {
  for (int i = 0; i < count; ++i) {
    uint32_t transposed[32];
    if (transpose) transpose_matrix(s[i], transposed);
    const uint32_t* const fragment = transpose ? transposed : s[i];
    for (int r = 0; r < 8; ++r) std::memcpy(chunks[8 * i + r], fragment + 4 * r, 16);
  }
}

void transpose_matrix(const uint32_t* s, uint32_t* d) {
  uint8_t copy[8][16];
  std::memcpy(copy, s, sizeof copy);
  const uint8_t* rows[8];
  for (int r = 0; r < 8; ++r) rows[r] = copy[r];
  read_rows(rows, true, d);
}

}  // namespace machine
