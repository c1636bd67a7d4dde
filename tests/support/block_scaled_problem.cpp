#include "tests/support/block_scaled_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/host/error.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder_test {

using ladder::BlockScaledArgs;
using ladder::check_cuda;
using ladder::Data;
using ladder::on_machine;
using ladder::SCALE_BLOCK;
using ladder::scale_blocks;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

namespace {

constexpr size_t GUARD_BYTES = 2064;  // a multiple of 16 and not of 32

std::shared_ptr<BlockScaledArgs> sizes_of(const Shape& shape) {
  return std::static_pointer_cast<BlockScaledArgs>(BlockScaledArgs::kind().sizes_of(shape));
}

float power_of_two(uint64_t seed, long long row, long long col) {
  const uint64_t bits = ladder::hash64(seed ^ static_cast<uint64_t>(row << 32 | col));
  return std::ldexp(1.0f, static_cast<int>(bits >> 40 & 3) - 2);
}

// The elements of an operand, [rows][k], and, unless they are integers, its scales.
struct Operand {
  std::vector<uint8_t> elements;
  std::vector<float> scales;
};

Operand make_operand(int type, Data data, uint64_t seed, int rows, int k, int block_rows) {
  Operand made;
  const auto count = static_cast<size_t>(rows) * static_cast<size_t>(k);
  made.elements.resize(count);
  if (data == Data::ints) {
    for (size_t i = 0; i < count; ++i) {
      const float value = ladder::data_value(data, seed, i);
      made.elements[i] = type == LADDER_S8
                             ? static_cast<uint8_t>(ladder::Element<ladder::s8>::from_float(value))
                             : ladder::Element<ladder::e4m3>::from_float(value).bits;
    }
    return made;
  }
  std::vector<ladder::bf16> x(count);
  for (size_t i = 0; i < count; ++i) {
    x[i] = ladder::Element<ladder::bf16>::from_float(ladder::data_value(data, seed, i));
  }
  const bool by_rows = block_rows == 1;
  const long long cols = by_rows ? rows : scale_blocks(k);
  made.scales.resize(static_cast<size_t>(cols * (by_rows ? scale_blocks(k) : scale_blocks(rows))));
  ladder::quantize_on_host({type, block_rows, rows, k, x.data(), k, made.elements.data(), k,
                            made.scales.data(), cols, nullptr});
  return made;
}

}  // namespace

GuardedBytes::GuardedBytes(long long rows, long long cols, long long ld, int element_bytes)
    : row_bytes_(static_cast<size_t>(cols * element_bytes)),
      ld_bytes_(static_cast<size_t>(ld * element_bytes)),
      rows_(static_cast<size_t>(rows)),
      buffer_(2 * GUARD_BYTES + span()) {
  check_cuda(cudaMemset(buffer_.data(), 0xff, buffer_.bytes()), "poisoning a matrix");
  check_cuda(cudaDeviceSynchronize(), "poisoning a matrix");
}

size_t GuardedBytes::span() const {
  return rows_ == 0 || row_bytes_ == 0 ? 0 : (rows_ - 1) * ld_bytes_ + row_bytes_;
}

void* GuardedBytes::data() const {
  return buffer_.as<char>() + GUARD_BYTES;
}

void GuardedBytes::upload(const void* elements) {
  check_cuda(cudaMemcpy2D(data(), ld_bytes_, elements, row_bytes_, row_bytes_, rows_,
                          cudaMemcpyHostToDevice),
             "uploading a matrix");
}

long long GuardedBytes::damage() const {
  check_cuda(cudaDeviceSynchronize(), "reading a matrix");
  std::vector<unsigned char> bytes(buffer_.bytes());
  check_cuda(cudaMemcpy(bytes.data(), buffer_.data(), bytes.size(), cudaMemcpyDeviceToHost),
             "reading a matrix");
  const auto changed = [&bytes](size_t begin, size_t end) {
    return std::count_if(bytes.begin() + static_cast<long>(begin),
                         bytes.begin() + static_cast<long>(end),
                         [](unsigned char byte) { return byte != 0xff; });
  };
  long long damaged = changed(0, GUARD_BYTES) + changed(GUARD_BYTES + span(), bytes.size());
  for (size_t row = 0; span() > 0 && row + 1 < rows_; ++row) {
    const size_t begin = GUARD_BYTES + row * ld_bytes_;
    damaged += changed(begin + row_bytes_, begin + ld_bytes_);
  }
  return damaged;
}

struct BlockScaledProblem::References {
  ladder::HostReference on_host;  // on the machine
  ladder::Reference on_gpu;       // on a GPU
};

BlockScaledProblem::BlockScaledProblem(const Shape& shape, Data data, const ScaledPadding& padding,
                                       cudaStream_t stream)
    : a(shape.m, shape.k, sizes_of(shape)->lda + padding.a, 1),
      scale_a(scale_blocks(shape.k), shape.m, sizes_of(shape)->ld_scale_a + padding.scale_a,
              sizeof(float)),
      b(shape.n, shape.k, sizes_of(shape)->ldb + padding.b, 1),
      scale_b(scale_blocks(shape.n), scale_blocks(shape.k), scale_blocks(shape.k) + padding.scale_b,
              sizeof(float)),
      d(shape.m, shape.n, padding.d),
      workspace(ladder::workspace_bytes(ladder::query_device().sm_count)),
      args(*sizes_of(shape)) {
  args.a = a.data();
  args.lda += padding.a;
  args.scale_a = static_cast<const float*>(scale_a.data());
  args.ld_scale_a += padding.scale_a;
  args.b = b.data();
  args.ldb += padding.b;
  args.scale_b = static_cast<const float*>(scale_b.data());
  args.ld_scale_b = scale_blocks(shape.k) + padding.scale_b;  // as checkpoints have it
  args.d = d.data();
  args.ldd = d.ld();
  args.stream = stream;
  args.workspace = workspace.data();
  const Operand of_a = make_operand(args.type, data, 1, shape.m, shape.k, 1);
  const Operand of_b = make_operand(args.type, data, 2, shape.n, shape.k, SCALE_BLOCK);
  set_elements(of_a.elements, of_b.elements);
  if (args.tensor_scales) {
    set_scales([](long long, long long) { return 0.5f; },
               [](long long, long long) { return 0.25f; });
  } else if (data == Data::ints) {
    set_scales([](long long row, long long col) { return power_of_two(3, row, col); },
               [](long long row, long long col) { return power_of_two(4, row, col); });
  } else {
    scale_a.upload(of_a.scales.data());
    scale_b.upload(of_b.scales.data());
  }
  check_cuda(cudaDeviceSynchronize(), "filling a problem");
}

BlockScaledProblem::~BlockScaledProblem() = default;

void BlockScaledProblem::set_elements(const std::vector<uint8_t>& of_a,
                                      const std::vector<uint8_t>& of_b) {
  a.upload(of_a.data());
  b.upload(of_b.data());
}

void BlockScaledProblem::set_scales(const ScaleOf& of_a, const ScaleOf& of_b) {
  const auto upload = [](GuardedBytes& to, long long rows, long long cols, const ScaleOf& of) {
    std::vector<float> scales;
    for (long long row = 0; row < rows; ++row) {
      for (long long col = 0; col < cols; ++col) scales.push_back(of(row, col));
    }
    to.upload(scales.data());
  };
  upload(scale_a, scale_blocks(args.k), args.m, of_a);
  upload(scale_b, scale_blocks(args.n), scale_blocks(args.k), of_b);
  check_cuda(cudaDeviceSynchronize(), "uploading scales");
}

ladder::Verdict BlockScaledProblem::verify(bool exact) {
  const bool first = references_ == nullptr;
  if (first) references_ = std::make_unique<References>();
  if (on_machine()) {
    if (first) references_->on_host = ladder::block_scaled_reference_on_host(args);
    return ladder::verify_block_scaled(args, references_->on_host, exact);
  }
  if (first) references_->on_gpu = ladder::block_scaled_reference_on_gpu(args);
  return ladder::verify_block_scaled(args, references_->on_gpu, exact);
}

long long BlockScaledProblem::damage() const {
  return a.damage() + scale_a.damage() + b.damage() + scale_b.damage() + d.damage() +
         workspace.damage();
}

Shape scaled_shape(int m, int n, int k, const std::string& type, const std::string& scales) {
  Shape shape{m, n, k};
  const std::string given[] = {type, scales};
  const std::vector<ladder::Parameter> parameters = BlockScaledArgs::kind().parameters();
  REQUIRE(parameters.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<std::string>& values = parameters[i].values;
    const auto found = std::find(values.begin(), values.end(), given[i]);
    REQUIRE(found != values.end());
    shape.parameters[i] = static_cast<int>(found - values.begin());
  }
  return shape;
}

std::string label(const Variant& variant, const BlockScaledArgs& args) {
  std::string text = std::string(variant.name) + " at " + to_string(Shape{args.m, args.n, args.k}) +
                     (args.type == LADDER_S8 ? " s8" : " e4m3") +
                     (args.tensor_scales ? " tensor-wide" : "") + ", ld " +
                     std::to_string(args.lda) + " " + std::to_string(args.ldb) + " " +
                     std::to_string(args.ldd) + ", scales " + std::to_string(args.ld_scale_a) +
                     " " + std::to_string(args.ld_scale_b);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

void run_watched(const Variant& variant, const BlockScaledArgs& args) {
  run_watched(label(variant, args), variant, args);
}

void check_variant(const Variant& variant, BlockScaledProblem& problem, bool exact) {
  check_variant(label(variant, problem.args), variant, problem, exact);
}

std::vector<const Stage*> scaled_rungs() {
  return rungs_that_solve(BlockScaledArgs::kind());
}

}  // namespace ladder_test
