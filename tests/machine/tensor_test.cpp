// wgmma, mma.sync and the matrix moves against plain triple loops. Where an element lies, in
// shared memory and in registers, is written out here a second time, from the manuals' formulas.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "common/machine/ops/matrix.h"
#include "common/machine/ops/number.h"

using namespace machine;

namespace {

constexpr MatrixType TYPES[] = {MatrixType::BF16, MatrixType::F16,  MatrixType::TF32,
                                MatrixType::E4M3, MatrixType::E5M2, MatrixType::S8,
                                MatrixType::U8};
constexpr uint32_t WINDOW_BYTES = 1 << 18;

std::mt19937& random_bits() {
  static std::mt19937 generator(1);
  return generator;
}

int random_int(int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random_bits());
}

bool is_16_bit(MatrixType type) {
  return type == MatrixType::BF16 || type == MatrixType::F16;
}
bool is_integer(MatrixType type) {
  return type == MatrixType::S8 || type == MatrixType::U8;
}

struct Number {
  uint32_t code;
  double value;
};

// A small number of the type, sums of whose products are exact in float: an integer, or a half
// where the type has few bits. TF32 carries noise in the bits that are not part of it.
Number random_number(MatrixType type) {
  const double integer = random_int(-9, 9);
  const double half = random_int(-8, 8) / 2.0;
  const auto noise = static_cast<uint32_t>(random_bits()());
  const uint32_t byte = noise & 0xff;
  switch (type) {
    case MatrixType::BF16:
      return {encode<BF16>(integer), integer};
    case MatrixType::F16:
      return {encode<F16>(integer), integer};
    case MatrixType::TF32:
      return {std::bit_cast<uint32_t>(static_cast<float>(integer)) | (noise & 0x1fff), integer};
    case MatrixType::E4M3:
      return {encode<E4M3>(half), half};
    case MatrixType::E5M2:
      return {encode<E5M2>(half), half};
    case MatrixType::S8:
      return {byte, static_cast<double>(static_cast<int8_t>(byte))};
    case MatrixType::U8:
      return {byte, static_cast<double>(byte)};
  }
  return {};
}

// A matrix of mn rows and k columns.
struct Matrix {
  int mn, k;
  MatrixType type;
  std::vector<Number> numbers;

  const Number& at(int row, int col) const { return numbers[row * k + col]; }
};

Matrix random_matrix(int mn, int k, MatrixType type) {
  Matrix matrix{mn, k, type, {}};
  for (int i = 0; i < mn * k; ++i) matrix.numbers.push_back(random_number(type));
  return matrix;
}

// --- Shared memory -------------------------------------------------------------------------------

enum SwizzleMode { NONE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

struct Layout {
  SwizzleMode mode;
  bool mn_major;
  uint32_t start, leading_bytes, stride_bytes;
  uint32_t pattern_row = 0;  // of eight rows of 128 bytes, in which one the pattern starts

  uint64_t descriptor() const {
    return static_cast<uint64_t>(start >> 4) | static_cast<uint64_t>(leading_bytes >> 4) << 16 |
           static_cast<uint64_t>(stride_bytes >> 4) << 32 |
           static_cast<uint64_t>(pattern_row) << 49 | static_cast<uint64_t>(mode) << 62;
  }
};

// The canonical layouts as CUTLASS describes them (mma_traits_sm90_gmma.hpp), T elements being 16
// bytes:
//   K-major   none ((8,m),(T,2)):((1T,SBO),(1,LBO)), else ((8,m),(T,2)):((WT,SBO),(1,T))
//   MN-major  none ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO)), else ((T,W,m),(8,k)):((1,T,LBO),(WT,SBO))
// with W = 2, 4, 8, followed by Swizzle<1..3,4,3> of the address.
uint32_t place(const Layout& layout, int bytes, int mn, int k) {
  const int t = 16 / bytes;
  const int w = layout.mode == NONE         ? 1
                : layout.mode == SWIZZLE_32 ? 2
                : layout.mode == SWIZZLE_64 ? 4
                                            : 8;
  uint32_t offset;
  if (!layout.mn_major) {
    const uint32_t second = layout.mode == NONE ? layout.leading_bytes : 16;
    offset = mn % 8 * w * 16 + mn / 8 * layout.stride_bytes + k % t * bytes + k / t * second;
  } else if (layout.mode == NONE) {
    offset =
        mn % t * bytes + mn / t * layout.stride_bytes + k % 8 * 16 + k / 8 * layout.leading_bytes;
  } else {
    offset = mn % t * bytes + mn / t % w * 16 + mn / t / w * layout.leading_bytes + k % 8 * w * 16 +
             k / 8 * layout.stride_bytes;
  }
  const uint32_t address = layout.start + offset;
  const uint32_t relative = address - layout.pattern_row * 128;
  return address ^ ((relative & (w - 1) << 7) >> 3);
}

// A layout that fits mn values of mn at the given place, with random space between its parts.
Layout random_layout(SwizzleMode mode, bool mn_major, int mn, uint32_t start) {
  const uint32_t width = mode == NONE ? 16 : 256 >> mode;
  const uint32_t block = 8 * width;
  Layout layout{mode, mn_major, start, 0, 0};
  const uint32_t gap = 16 * random_int(0, 3);
  if (!mn_major && mode != NONE) {
    layout.stride_bytes = block + gap;
    layout.leading_bytes = 16 * random_int(0, 100);  // not used
  } else {
    const uint32_t blocks = mn_major && mode != NONE ? (mn * 2 + width - 1) / width : mn / 8;
    uint32_t inner = block + gap, outer = blocks * inner + gap;
    const bool mn_inner = random_int(0, 1) == 0;
    if (!mn_inner) outer = 2 * inner + gap;
    const uint32_t mn_stride = mn_inner ? inner : outer, k_stride = mn_inner ? outer : inner;
    const bool mn_is_leading = mn_major && mode != NONE;
    layout.leading_bytes = mn_is_leading ? mn_stride : k_stride;
    layout.stride_bytes = mn_is_leading ? k_stride : mn_stride;
  }
  return layout;
}

void write(const Layout& layout, const Matrix& matrix, std::vector<uint8_t>& window) {
  const int bytes = element_bytes(matrix.type);
  for (int mn = 0; mn < matrix.mn; ++mn) {
    for (int k = 0; k < matrix.k; ++k) {
      std::memcpy(&window.at(place(layout, bytes, mn, k)), &matrix.at(mn, k).code, bytes);
    }
  }
}

// --- Registers -----------------------------------------------------------------------------------

struct Rows {
  explicit Rows(int count) : words(count * 32), pointers(count) {
    for (int r = 0; r < count; ++r) pointers[r] = &words[r * 32];
  }
  uint32_t* const* data() { return pointers.data(); }
  std::vector<uint32_t> words;
  std::vector<uint32_t*> pointers;
};

void put(Rows& rows, int row, int lane, int element, int bits, uint32_t code) {
  rows.words[row * 32 + lane] |= code << element * bits;
}

// A of m16n8k*: PTX's a_i of each lane, from its formulas for 16-byte and 32-byte K.
Rows a_rows(const Matrix& a, int first_row) {
  const int bytes = element_bytes(a.type), per_word = 4 / bytes;
  const int count = 2 * a.k * bytes / 16;
  Rows rows(count);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < count * per_word; ++i) {
      const int reg = i / per_word;
      const int row = reg == 0 || reg == 2 ? group : group + 8;
      const int col = in_group * per_word + i % per_word + (reg >= 2 ? 4 * per_word : 0);
      put(rows, reg, lane, i % per_word, 8 * bytes, a.at(first_row + row, col).code);
    }
  }
  return rows;
}

Rows b_rows(const Matrix& b) {
  const int bytes = element_bytes(b.type), per_word = 4 / bytes;
  const int count = b.k * bytes / 16;
  Rows rows(count);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < count * per_word; ++i) {
      const int reg = i / per_word;
      const int k = in_group * per_word + i % per_word + (reg == 1 ? 4 * per_word : 0);
      put(rows, reg, lane, i % per_word, 8 * bytes, b.at(group, k).code);
    }
  }
  return rows;
}

// Accumulators of 16 x n, as values; PTX: d_i at row group + 8 * (i % 4 / 2), column
// 8 * (i / 4) + 2 * in_group + i % 2.
struct Tile {
  int n;
  std::vector<double> values;
  double& at(int row, int col) { return values[row * n + col]; }
};

Tile random_tile(int n, AccumulatorType type) {
  Tile tile{n, std::vector<double>(16 * n)};
  const int limit = type == AccumulatorType::S32 ? 1 << 30 : 1000;
  for (double& value : tile.values) value = random_int(-limit, limit);
  return tile;
}

uint32_t accumulator_code(double value, AccumulatorType type) {
  if (type == AccumulatorType::F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (type == AccumulatorType::F16) return encode<F16>(value);
  return static_cast<uint32_t>(static_cast<int64_t>(value));  // wraps
}

Rows tile_rows(Tile& tile, AccumulatorType type) {
  Rows rows(accumulator_registers(type, tile.n));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < tile.n / 2; ++i) {
      const int row = lane / 4 + i % 4 / 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const uint32_t code = accumulator_code(tile.at(row, col), type);
      if (type == AccumulatorType::F16) {
        put(rows, i / 2, lane, i % 2, 16, code);
      } else {
        put(rows, i, lane, 0, 32, code);
      }
    }
  }
  return rows;
}

// The product by definition: what rows from first_row on of A give.
Tile product(const Matrix& a, int first_row, const Matrix& b, const Tile* c, double sign) {
  Tile tile{b.mn, std::vector<double>(16 * b.mn)};
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < b.mn; ++col) {
      double sum = c != nullptr ? c->values[row * b.mn + col] : 0;
      for (int k = 0; k < b.k; ++k) {
        sum += sign * a.at(first_row + row, k).value * b.at(col, k).value;
      }
      tile.at(row, col) = sum;
    }
  }
  return tile;
}

AccumulatorType accumulator_of(MatrixType type) {
  return is_integer(type) ? AccumulatorType::S32 : AccumulatorType::F32;
}

// Which types may stand together.
MatrixType random_partner(MatrixType type) {
  const bool other = random_int(0, 1) == 1;
  if (is_integer(type)) return other ? MatrixType::S8 : MatrixType::U8;
  if (type == MatrixType::E4M3 || type == MatrixType::E5M2) {
    return other ? MatrixType::E4M3 : MatrixType::E5M2;
  }
  return type;
}

// One wgmma with random data, layouts within `mode`, and accumulators; false if any bit differs.
bool wgmma_is_right(MatrixType type, int n, bool a_mn_major, bool b_mn_major, SwizzleMode mode,
                    AccumulatorType accumulator) {
  const MatrixType b_type = random_partner(type);
  const int k = wgmma_k(type);
  const Matrix a = random_matrix(64, k, type), b = random_matrix(n, k, b_type);
  const auto a_mode = static_cast<SwizzleMode>(random_int(0, 3));
  const Layout a_layout = random_layout(a_mode, a_mn_major, 64, 0x2000 + 16 * random_int(0, 63));
  const Layout b_layout = random_layout(mode, b_mn_major, n, 0x10000 + 16 * random_int(0, 63));
  std::vector<uint8_t> window(WINDOW_BYTES, 0xff);
  write(a_layout, a, window);
  write(b_layout, b, window);

  const MatrixView a_view(a_layout.descriptor(), type, a_mn_major);
  const MatrixView b_view(b_layout.descriptor(), b_type, b_mn_major);
  const bool scale_d = random_int(0, 3) != 0, from_registers = random_int(0, 1) == 0;
  const bool negate = !is_integer(type) && random_int(0, 1) == 0;
  OperandA left;
  OperandB right;
  decode_b(b_view, n, window.data(), right);
  bool same = true;
  for (int warp = 0; warp < 4; ++warp) {
    Tile c = random_tile(n, accumulator);
    Rows d = tile_rows(c, accumulator);
    if (from_registers) {
      decode_a(a_rows(a, 16 * warp).data(), 2, type, negate, left);
    } else {
      decode_a(a_view, warp, window.data(), negate, left);
    }
    multiply(left, right, accumulator, scale_d, false, d.data());
    Tile expected = product(a, 16 * warp, b, scale_d ? &c : nullptr, negate ? -1 : 1);
    same = same && d.words == tile_rows(expected, accumulator).words;
  }
  return same;
}

}  // namespace

TEST_CASE("tensor: wgmma of every type, N, major and swizzle") {
  int wrong = 0;
  for (const MatrixType type : TYPES) {
    for (int majors = 0; majors < (is_16_bit(type) ? 4 : 1); ++majors) {
      for (const SwizzleMode mode : {NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32}) {
        for (int n = 8; n <= 256; n += 8) {
          const bool right =
              wgmma_is_right(type, n, majors / 2 == 1, majors % 2 == 1, mode, accumulator_of(type));
          if (right || wrong++ != 0) continue;
          FAIL_CHECK("type " << static_cast<int>(type) << " majors " << majors << " mode "
                             << static_cast<int>(mode) << " n " << n);
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("tensor: wgmma with f16 accumulators rounds once, at the end") {
  for (const MatrixType type : {MatrixType::F16, MatrixType::E4M3, MatrixType::E5M2}) {
    for (int n = 8; n <= 256; n += 8) {
      CAPTURE(n);
      CHECK(wgmma_is_right(type, n, false, false, SWIZZLE_128, AccumulatorType::F16));
    }
  }
}

TEST_CASE("tensor: scale-d 0 does not look at D") {
  const Matrix a = random_matrix(64, 16, MatrixType::BF16),
               b = random_matrix(8, 16, MatrixType::BF16);
  std::vector<uint8_t> window(WINDOW_BYTES);
  const Layout layout = random_layout(SWIZZLE_128, false, 8, 0x400);
  write(layout, b, window);
  OperandA left;
  OperandB right;
  decode_a(a_rows(a, 0).data(), 2, MatrixType::BF16, false, left);
  decode_b(MatrixView(layout.descriptor(), MatrixType::BF16, false), 8, window.data(), right);
  Rows d(4);
  d.words.assign(4 * 32, F32_NAN);
  multiply(left, right, AccumulatorType::F32, false, false, d.data());
  Tile expected = product(a, 0, b, nullptr, 1);
  CHECK(d.words == tile_rows(expected, AccumulatorType::F32).words);
}

TEST_CASE("tensor: sums of random data stay within the bound of float addition") {
  const int k = 16;
  std::normal_distribution<float> normal;
  Matrix a{64, k, MatrixType::BF16, {}}, b{8, k, MatrixType::BF16, {}};
  for (Matrix* matrix : {&a, &b}) {
    for (int i = 0; i < matrix->mn * k; ++i) {
      const uint32_t code = bf16_from_f32(normal(random_bits()));
      matrix->numbers.push_back({code, decode<BF16>(code)});
    }
  }
  Rows d(4);
  mma({MatrixType::BF16, MatrixType::BF16, AccumulatorType::F32, k, false}, d.data(),
      a_rows(a, 0).data(), b_rows(b).data(), d.data());
  const Tile expected = product(a, 0, b, nullptr, 1);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
      double magnitude = 0;
      for (int j = 0; j < k; ++j) magnitude += std::fabs(a.at(row, j).value * b.at(col, j).value);
      const double value = std::bit_cast<float>(d.words[i * 32 + lane]);
      CHECK(std::fabs(value - expected.values[row * 8 + col]) <= k * 0x1p-24 * magnitude);
    }
  }
}

TEST_CASE("tensor: mma.sync of every type and K, also in place") {
  for (const MatrixType type : TYPES) {
    for (const int k : {wgmma_k(type) / 2, wgmma_k(type)}) {
      for (int repeat = 0; repeat < 8; ++repeat) {
        CAPTURE(static_cast<int>(type));
        CAPTURE(k);
        const MatrixType b_type = random_partner(type);
        const Matrix a = random_matrix(16, k, type), b = random_matrix(8, k, b_type);
        AccumulatorType accumulator = accumulator_of(type);
        if (type == MatrixType::F16 && repeat % 2 == 0) accumulator = AccumulatorType::F16;
        Tile c = random_tile(8, accumulator);
        Tile expected = product(a, 0, b, &c, 1);
        const Mma shape{type, b_type, accumulator, k, false};
        Rows a_regs = a_rows(a, 0), b_regs = b_rows(b), c_regs = tile_rows(c, accumulator);
        Rows d(accumulator_registers(accumulator, 8));
        mma(shape, d.data(), a_regs.data(), b_regs.data(), c_regs.data());
        const std::vector<uint32_t> right = tile_rows(expected, accumulator).words;
        CHECK(d.words == right);

        mma(shape, c_regs.data(), a_regs.data(), b_regs.data(), c_regs.data());
        CHECK(c_regs.words == right);

        // D over the registers of A, B and others, in an order of its own
        Rows c_again = tile_rows(c, accumulator), spare(2);
        uint32_t* const over[] = {b_regs.data()[0], a_regs.data()[1], a_regs.data()[0],
                                  spare.data()[0]};
        mma(shape, over, a_regs.data(), b_regs.data(), c_again.data());
        for (size_t r = 0; r < right.size() / 32; ++r) {
          CHECK(std::memcmp(over[r], &right[r * 32], 128) == 0);
        }
      }
    }
  }
}

TEST_CASE("tensor: integer accumulators wrap or, with .satfinite, clamp") {
  constexpr int64_t LOW = std::numeric_limits<int32_t>::min(),
                    HIGH = std::numeric_limits<int32_t>::max();
  for (const bool saturate : {false, true}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Matrix a = random_matrix(16, 32, MatrixType::S8),
                   b = random_matrix(8, 32, MatrixType::U8);
      Tile c{8, std::vector<double>(16 * 8)};
      for (double& value : c.values) {
        value = static_cast<double>(random_int(0, 1) == 0 ? LOW + random_int(0, 100000)
                                                          : HIGH - random_int(0, 100000));
      }
      Tile expected = product(a, 0, b, &c, 1);
      int outside = 0;
      for (double& value : expected.values) {
        outside += value < LOW || value > HIGH;
        if (saturate) value = std::fmin(std::fmax(value, LOW), HIGH);
      }
      CHECK(outside > 0);
      Rows d = tile_rows(c, AccumulatorType::S32);
      mma({MatrixType::S8, MatrixType::U8, AccumulatorType::S32, 32, saturate}, d.data(),
          a_rows(a, 0).data(), b_rows(b).data(), d.data());
      CHECK(d.words == tile_rows(expected, AccumulatorType::S32).words);
    }
  }
}

TEST_CASE("tensor: mma.sync of doubles") {
  struct {
    int m, k;
  } shapes[] = {{8, 4}, {16, 4}, {16, 8}, {16, 16}};
  for (const auto& [m, k] : shapes) {
    CAPTURE(m);
    CAPTURE(k);
    double a[16][16], b[8][16], c[16][8];
    for (auto& row : a)
      for (double& x : row) x = random_int(-99, 99);
    for (auto& row : b)
      for (double& x : row) x = random_int(-99, 99);
    for (auto& row : c)
      for (double& x : row) x = random_int(-99, 99);
    std::vector<std::vector<double>> storage(16, std::vector<double>(32));
    std::vector<double*> a_regs, b_regs, c_regs;
    for (int r = 0; r < 8; ++r) a_regs.push_back(storage[r].data());
    for (int r = 0; r < 4; ++r) b_regs.push_back(storage[8 + r].data());
    for (int r = 0; r < 4; ++r) c_regs.push_back(storage[12 + r].data());
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane / 4, in_group = lane % 4;
      for (int i = 0; i < m * k / 32; ++i) {
        const int row = m == 8 || i % 2 == 0 ? group : group + 8;
        const int col = m == 8 ? in_group : i / 2 * 4 + in_group;
        a_regs[i][lane] = a[row][col];
      }
      for (int i = 0; i < k / 4; ++i) b_regs[i][lane] = b[group][in_group + 4 * i];
      for (int i = 0; i < m / 4; ++i) c_regs[i][lane] = c[group + i / 2 * 8][in_group * 2 + i % 2];
    }
    mma_f64(m, k, c_regs.data(), a_regs.data(), b_regs.data(), c_regs.data());
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < m / 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
        double expected = c[row][col];
        for (int j = 0; j < k; ++j) expected += a[row][j] * b[col][j];
        CHECK(c_regs[i][lane] == expected);
      }
    }
  }
}

TEST_CASE("tensor: addresses, extents and segments of an operand") {
  for (int repeat = 0; repeat < 400; ++repeat) {
    const MatrixType type = TYPES[random_int(0, 6)];
    const bool mn_major = is_16_bit(type) && random_int(0, 1) == 1;
    const auto mode = static_cast<SwizzleMode>(random_int(0, 3));
    const int count = 8 * random_int(1, 32), first = count <= 192 ? 16 * random_int(0, 3) : 0;
    const int bytes = element_bytes(type);
    Layout layout = random_layout(mode, mn_major, 256, 0x400 + 16 * random_int(0, 200));
    if (repeat % 8 == 0) layout.leading_bytes = layout.stride_bytes = 0;  // all on one place
    const MatrixView view(layout.descriptor(), type, mn_major);
    CHECK(view.type() == type);

    std::set<uint32_t> read;
    int wrong = 0;
    for (int mn = first; mn < first + count; ++mn) {
      for (int k = 0; k < wgmma_k(type); ++k) {
        const uint32_t address = place(layout, bytes, mn, k);
        wrong += view.address(mn, k) != address;
        for (int byte = 0; byte < bytes; ++byte) read.insert(address + byte);
      }
    }
    CHECK(wrong == 0);

    const uint32_t begin = *read.begin(), end = *read.rbegin() + 1;
    const Segment extent = view.extent(first, count);
    CHECK(extent.address == begin);
    CHECK(extent.address + extent.bytes == end);
    for (const int slack : {-128, -64, -16, -1, 0, 1, 16, 64, 128, 500}) {
      CHECK(view.inside(first, count, begin - slack, 1 << 20) == (slack >= 0));
      CHECK(view.inside(first, count, 0, end + slack) == (slack >= 0));
    }

    std::vector<Segment> segments = {{0, 0}};  // what is there stays
    view.append_segments(first, count, segments);
    REQUIRE(segments.size() > 1);
    uint32_t last_end = 0;
    std::set<uint32_t> listed;
    for (size_t i = 1; i < segments.size(); ++i) {
      CHECK((i == 1 || segments[i].address > last_end));
      last_end = segments[i].address + segments[i].bytes;
      for (uint32_t a = segments[i].address; a < last_end; ++a) listed.insert(a);
    }
    CHECK(listed == read);
  }
}

TEST_CASE("tensor: every bit of a descriptor's addresses and offsets counts") {
  for (int bit = 4; bit < 18; ++bit) {
    for (const bool mn_major : {false, true}) {
      const Layout layout{NONE, mn_major, 1u << bit, 1u << (21 - bit),
                          3u << (bit == 17 ? 16 : bit)};
      const MatrixView view(layout.descriptor(), MatrixType::F16, mn_major);
      CHECK(view.address(17, 9) == place(layout, 2, 17, 9));
    }
  }
}

TEST_CASE("tensor: the base offset says in which row the swizzle pattern starts") {
  for (uint32_t row = 0; row < 8; ++row) {
    Layout layout{SWIZZLE_128, false, 0x800 + 128 * row, 0, 1024, row};
    const MatrixView view(layout.descriptor(), MatrixType::BF16, false);
    for (int mn = 0; mn < 64; ++mn) {
      // a tile that starts on that row, swizzled by its own row numbers
      const uint32_t expected = layout.start + mn * 128 + ((1 ^ (mn % 8)) * 16);
      CHECK(view.address(mn, 8) == expected);
      CHECK(place(layout, 2, mn, 8) == expected);
    }
  }
}

TEST_CASE("tensor: ldmatrix, stmatrix and movmatrix") {
  for (const int count : {1, 2, 4}) {
    for (const bool transpose : {false, true}) {
      CAPTURE(count);
      CAPTURE(transpose);
      uint16_t matrices[4][8][8];
      for (auto& matrix : matrices) {
        for (auto& row : matrix)
          for (uint16_t& x : row) x = static_cast<uint16_t>(random_bits()());
      }
      const uint8_t* chunks[32] = {};  // null beyond what x1 and x2 may look at
      for (int l = 0; l < 8 * count; ++l) {
        chunks[l] = reinterpret_cast<const uint8_t*>(matrices[l / 8][l % 8]);
      }
      Rows d(4);
      load_matrices(count, transpose, chunks, d.data());
      for (int i = 0; i < count; ++i) {
        for (int lane = 0; lane < 32; ++lane) {
          const int row = lane / 4, col = lane % 4 * 2;
          const uint32_t low = transpose ? matrices[i][col][row] : matrices[i][row][col];
          const uint32_t high = transpose ? matrices[i][col + 1][row] : matrices[i][row][col + 1];
          CHECK(d.words[i * 32 + lane] == (low | high << 16));
        }
      }

      uint16_t stored[4][8][8] = {};
      uint8_t* targets[32] = {};
      for (int l = 0; l < 8 * count; ++l)
        targets[l] = reinterpret_cast<uint8_t*>(stored[l / 8][l % 8]);
      store_matrices(count, transpose, targets, d.data());
      CHECK(std::memcmp(stored, matrices, sizeof stored / 4 * count) == 0);

      Rows moved(2);
      transpose_matrix(d.data()[0], moved.data()[0]);
      load_matrices(1, !transpose, chunks, &moved.pointers[1]);
      CHECK(std::memcmp(moved.data()[0], moved.data()[1], 128) == 0);
      transpose_matrix(moved.data()[0], moved.data()[0]);
      CHECK(std::memcmp(moved.data()[0], d.data()[0], 128) == 0);
    }
  }
}
