#include "tests/support/grouped_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/host/error.h"
#include "common/host/where.h"

namespace ladder_test {

using ladder::bf16;
using ladder::check_cuda;
using ladder::Data;
using ladder::Element;
using ladder::GroupedArgs;
using ladder::on_machine;
using ladder::SCALE_BLOCK;
using ladder::scale_blocks;
using ladder::Stage;
using ladder::Variant;

namespace {

int bytes_of(const GroupedShape& shape) {
  return shape.type == LADDER_E4M3 ? 1 : 2;
}
long long all_rows(const GroupedShape& shape) {
  return shape.masked ? 1LL * shape.groups() * shape.m : shape.m;
}
long long ld_of(const GroupedShape& shape, bool padded) {
  const long long multiple = 16 / bytes_of(shape);
  return (shape.k + multiple - 1) / multiple * multiple + (padded ? multiple : 0);
}
long long ld_scale_a(const GroupedShape& shape, bool padded) {
  return (all_rows(shape) + 3) / 4 * 4 + (padded ? 8 : 0);
}
bool scaled(const GroupedShape& shape) {
  return shape.type == LADDER_E4M3;
}

float power_of_two(uint64_t seed, long long row, long long col) {
  const uint64_t bits = ladder::hash64(seed ^ static_cast<uint64_t>(row << 32 | col));
  return std::ldexp(1.0f, static_cast<int>(bits >> 40 & 3) - 2);
}

// [rows][k] of the type, and of e4m3 its scales, dense.
struct Operand {
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
};
Operand make_operand(const GroupedShape& shape, Data data, uint64_t seed, int rows,
                     int block_rows) {
  Operand made;
  const auto count = static_cast<size_t>(rows) * static_cast<size_t>(shape.k);
  std::vector<bf16> x(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = Element<bf16>::from_float(ladder::data_value(data, seed, i));
  }
  made.bytes.resize(count * static_cast<size_t>(bytes_of(shape)));
  if (!scaled(shape)) {
    if (count > 0) std::memcpy(made.bytes.data(), x.data(), made.bytes.size());
    return made;
  }
  const bool by_rows = block_rows == 1;
  const long long scale_rows = by_rows ? scale_blocks(shape.k) : scale_blocks(rows);
  const long long scale_cols = by_rows ? rows : scale_blocks(shape.k);
  made.scales.resize(static_cast<size_t>(scale_rows * scale_cols));
  if (data == Data::ints) {
    for (size_t i = 0; i < count; ++i) {
      made.bytes[i] = Element<ladder::e4m3>::from_float(Element<bf16>::to_float(x[i])).bits;
    }
    for (long long i = 0; i < scale_rows * scale_cols; ++i) {
      made.scales[static_cast<size_t>(i)] = power_of_two(seed, i / scale_cols, i % scale_cols);
    }
  } else if (rows > 0) {
    ladder::quantize_on_host({LADDER_E4M3, block_rows, rows, shape.k, x.data(), shape.k,
                              made.bytes.data(), shape.k, made.scales.data(), scale_cols, nullptr});
  }
  return made;
}

}  // namespace

GroupedProblem::GroupedProblem(const GroupedShape& given, Data data, bool padded,
                               cudaStream_t stream)
    : shape(given),
      a(all_rows(given), given.k, ld_of(given, padded), bytes_of(given)),
      scale_a(scaled(given) ? scale_blocks(given.k) : 0, all_rows(given), ld_scale_a(given, padded),
              sizeof(float)),
      b(1LL * given.groups() * given.n, given.k, ld_of(given, padded), bytes_of(given)),
      scale_b(scaled(given) ? given.groups() * scale_blocks(given.n) : 0, scale_blocks(given.k),
              scale_blocks(given.k) + (padded ? 3 : 0), sizeof(float)),
      d(static_cast<int>(all_rows(given)), given.n, padded ? 24 : 0),
      sizes(1, static_cast<long long>(given.sizes.size()),
            static_cast<long long>(given.sizes.size()), sizeof(int)),
      error_flag(1, 1, 1, sizeof(int)),
      workspace(ladder::workspace_bytes(ladder::query_device().sm_count)),
      data_(data) {
  args.type = shape.type;
  args.masked = shape.masked;
  args.groups = shape.groups();
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.a = a.data();
  args.lda = args.ldb = ld_of(shape, padded);
  args.b = b.data();
  if (scaled(shape)) {
    args.scale_a = static_cast<const float*>(scale_a.data());
    args.scale_b = static_cast<const float*>(scale_b.data());
    args.ld_scale_a = ld_scale_a(shape, padded);
    args.ld_scale_b = scale_blocks(shape.k) + (padded ? 3 : 0);
  }
  args.d = d.data();
  args.ldd = d.ld();
  args.sizes = static_cast<const int*>(sizes.data());
  args.error_flag = static_cast<int*>(error_flag.data());
  args.stream = stream;
  args.workspace = workspace.data();
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
  for (int g = 0; g < shape.groups(); ++g) {
    const Operand one = make_operand(shape, data, 100 + g, shape.n, SCALE_BLOCK);
    bytes.insert(bytes.end(), one.bytes.begin(), one.bytes.end());
    scales.insert(scales.end(), one.scales.begin(), one.scales.end());
  }
  if (!bytes.empty()) b.upload(bytes.data());
  if (!scales.empty()) scale_b.upload(scales.data());
  set_sizes(shape.sizes);
  poison();
}

void GroupedProblem::set_sizes(const std::vector<int>& given) {
  REQUIRE(given.size() == shape.sizes.size());
  shape.sizes = given;
  if (!given.empty()) sizes.upload(given.data());
  fill_a();
  check_cuda(cudaDeviceSynchronize(), "filling a problem");
}

ladder::GoodRows GroupedProblem::good() const {
  return ladder::good_rows({shape.sizes.data(), shape.groups(), shape.m, shape.masked});
}

void GroupedProblem::fill_a() {
  if (all_rows(shape) == 0 || shape.k == 0) return;
  Operand all = make_operand(shape, data_, 7, static_cast<int>(all_rows(shape)), 1);
  const std::vector<tile::GroupRows> rows = good().rows;
  const size_t row_bytes = static_cast<size_t>(shape.k * bytes_of(shape));
  for (long long row = 0; row < all_rows(shape); ++row) {
    const bool used = std::any_of(rows.begin(), rows.end(), [row](const tile::GroupRows& one) {
      return row >= one.begin && row < one.begin + one.count;
    });
    if (used) continue;
    std::fill_n(all.bytes.begin() + static_cast<long>(row * row_bytes), row_bytes, 0xff);  // NaN
    for (long long i = 0; scaled(shape) && i < scale_blocks(shape.k); ++i) {
      all.scales[static_cast<size_t>(i * all_rows(shape) + row)] = NAN;
    }
  }
  a.upload(all.bytes.data());
  if (scaled(shape)) scale_a.upload(all.scales.data());
}

void GroupedProblem::poison() {
  d.poison();
  const int poisoned = -1;
  error_flag.upload(&poisoned);
}

ladder::Verdict GroupedProblem::verify(bool exact) const {
  ladder::Verdict all;
  for (const ladder::GroupCall& group : ladder::calls_of_groups(args, good().rows)) {
    ladder::Verdict one;
    if (scaled(shape) && on_machine()) {
      one = verify_block_scaled(group.scaled, block_scaled_reference_on_host(group.scaled), exact);
    } else if (scaled(shape)) {
      one = verify_block_scaled(group.scaled, block_scaled_reference_on_gpu(group.scaled), exact);
    } else if (on_machine()) {
      one = verify_on_host(group.product, reference_on_host(group.product), exact);
    } else {
      one = verify_gpu(group.product, reference_gpu(group.product), exact);
    }
    one.first_row += one.ok() ? 0 : group.begin;
    if (all.ok()) all = one;
  }
  return all;
}

long long GroupedProblem::damage() const {
  const ladder::GoodRows rows = good();
  long long damaged = a.damage() + scale_a.damage() + b.damage() + scale_b.damage() + d.damage() +
                      sizes.damage() + error_flag.damage() + workspace.damage();
  const std::vector<bf16> elements = d.download();
  for (long long row = 0; row < all_rows(shape); ++row) {
    const bool used =
        std::any_of(rows.rows.begin(), rows.rows.end(), [row](const tile::GroupRows& one) {
          return row >= one.begin && row < one.begin + one.count;
        });
    for (long long col = 0; !used && col < shape.n; ++col) {
      const bf16 element = elements[static_cast<size_t>(row * shape.n + col)];
      damaged += std::bit_cast<uint16_t>(element) != Matrix::POISON;
    }
  }
  int flag = -1;
  check_cuda(cudaMemcpy(&flag, error_flag.data(), sizeof flag, cudaMemcpyDeviceToHost),
             "reading the error flag");
  return damaged + (flag != rows.error_flag);
}

std::string label(const Variant& variant, const GroupedProblem& problem) {
  const GroupedShape& shape = problem.shape;
  std::string text =
      std::string(variant.name) + " at " + to_string(ladder::Shape{shape.m, shape.n, shape.k}) +
      (scaled(shape) ? " e4m3" : " bf16") + (shape.masked ? " masked" : "") + ", sizes";
  for (const int size : shape.sizes) text += " " + std::to_string(size);
  if (problem.args.max_ctas != 0) {
    text += ", at most " + std::to_string(problem.args.max_ctas) + " CTAs";
  }
  return text;
}

void check_variant(const Variant& variant, GroupedProblem& problem, bool exact) {
  problem.poison();
  const std::string where = label(variant, problem);
  CAPTURE(where);
  try {
    run_watched(where, variant, problem.args);
    const ladder::Verdict verdict = problem.verify(exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(std::string(error.what()));
  }
}

std::vector<const Stage*> grouped_rungs() {
  return rungs_that_solve(GroupedArgs::kind());
}

int check_grouped(GroupedProblem& problem, bool exact) {
  int variants = 0;
  for (const Stage* stage : grouped_rungs()) {
    for (const Variant& variant : stage->variants) {
      if (variant.takes && !variant.takes(problem.args)) continue;
      check_variant(variant, problem, exact);
      ++variants;
    }
  }
  CHECK(variants > 0);
  return variants;
}

std::vector<int> offsets_of(const std::vector<int>& rows) {
  std::vector<int> offsets = {0};
  for (const int each : rows) offsets.push_back(offsets.back() + each);
  return offsets;
}

}  // namespace ladder_test
