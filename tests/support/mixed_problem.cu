#include "tests/support/mixed_problem.h"

#include <doctest/doctest.h>

#include "common/host/error.h"
#include "common/host/verify_cpu.h"
#include "common/host/watchdog.h"
#include "common/host/weights.h"

namespace ladder_test {

using ladder::bf16;
using ladder::check_cuda;
using ladder::Data;
using ladder::MixedArgs;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

namespace {

bf16 narrow(float value) {
  return __float2bfloat16_rn(value);
}

Matrix packed_words(int bits, const Shape& shape) {
  return Matrix(1, static_cast<int>(tile::packed_bytes(bits, shape.n, shape.k) / 2), 0);
}

}  // namespace

MixedProblem::MixedProblem(int bits, const Shape& shape, Data data, Padding padding,
                           cudaStream_t stream)
    : a(shape.m, shape.k, padding.a),
      packed(packed_words(bits, shape)),
      scale(tile::ceil_div(shape.k, tile::PACKED_K), shape.n, padding.b),
      d(shape.m, shape.n, padding.d) {
  const int m = shape.m, n = shape.n, k = shape.k;
  args.bits = bits;
  args.m = m;
  args.n = n;
  args.k = k;
  args.stream = stream;
  args.a = a.data();
  args.lda = a.ld();
  args.packed = packed.data();
  args.scale = scale.data();
  args.ld_scale = scale.ld();
  args.d = d.data();
  args.ldd = d.ld();
  std::vector<bf16> of_a(static_cast<size_t>(m) * k), w(static_cast<size_t>(n) * k);
  for (size_t i = 0; i < of_a.size(); ++i) of_a[i] = narrow(ladder::data_value(data, 1, i));
  for (size_t i = 0; i < w.size(); ++i) w[i] = narrow(ladder::data_value(data, 2, i));
  for (const bf16 each : of_a) a_.push_back(__bfloat162float(each));
  a.upload(of_a);

  const long long ldq = (k + 31LL) / 32 * 32;
  std::vector<uint8_t> q(n == 0 || k == 0 ? 0 : ladder::weights_bytes(bits, n, k, ldq));
  std::vector<bf16> of_groups(static_cast<size_t>(blocks()) * n);
  if (!q.empty()) {
    ladder::quantize_weights_cpu(bits, n, k, w.data(), k, q.data(), ldq, of_groups.data(), n);
  }
  fill([&](long long row, long long col) {
    return data == Data::ints ? static_cast<int>(__bfloat162float(w[row * k + col]))
                              : ladder::weight_at(bits, q.data(), ldq, row, col);
  });
  rescale([&](long long row, long long block) {
    if (data != Data::ints) return __bfloat162float(of_groups[block * n + row]);
    return (row + block) % 3 == 0 ? 0.5f : static_cast<float>((row + block) % 3);
  });
}

int MixedProblem::blocks() const {
  return tile::ceil_div(args.k, tile::PACKED_K);
}

void MixedProblem::fill(const std::function<int(long long row, long long col)>& weight_of) {
  const int n = args.n, k = args.k, bits = args.bits;
  q_.clear();
  r_.clear();
  if (n == 0 || k == 0) return;
  const long long ldq = (k + 31LL) / 32 * 32;
  std::vector<uint8_t> q(ladder::weights_bytes(bits, n, k, ldq));
  for (long long i = 0; i < 1LL * n * k; ++i) {
    q_.push_back(weight_of(i / k, i % k));
    const int code = q_.back() & (bits == 8 ? 255 : 15);
    const long long at = i / k * ldq + i % k;
    if (bits == 8) q[at] = static_cast<uint8_t>(code);
    if (bits == 4) q[at / 2] |= static_cast<uint8_t>(code << at % 2 * 4);
  }
  const std::vector<uint32_t> words = ladder::pack_weights_cpu(bits, n, k, q.data(), ldq);
  check_cuda(cudaMemcpy(packed.data(), words.data(), words.size() * 4, cudaMemcpyHostToDevice),
             "uploading weights");
}

void MixedProblem::rescale(const ScaleOf& scale_of) {
  std::vector<bf16> of_groups;
  scale_.clear();
  for (long long block = 0; block < blocks(); ++block) {
    for (long long row = 0; row < args.n; ++row) {
      of_groups.push_back(narrow(scale_of(row, block)));
      scale_.push_back(__bfloat162float(of_groups.back()));
    }
  }
  scale.upload(of_groups);
  r_.clear();
}

ladder::Verdict MixedProblem::verify(bool exact) {
  const int m = args.m, n = args.n, k = args.k;
  if (r_.empty()) {
    r_.resize(static_cast<size_t>(m) * n);
    s_.resize(r_.size());
    std::vector<float> w(q_.size());  // exact in fp32: 7 bits by 8
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<float>(q_[i]) * scale_[i % k / tile::PACKED_K * n + i / k];
    }
    ladder::reference_cpu(m, n, k, a_.data(), k, w.data(), k, r_.data(), s_.data());
  }
  const std::vector<bf16> got = d.download();
  return ladder::verify_cpu(got.data(), n, m, n, r_.data(), s_.data(), exact);
}

long long MixedProblem::damage() const {
  return a.damage() + packed.damage() + scale.damage() + d.damage();
}

std::string label(const Variant& variant, const MixedArgs& args) {
  std::string text = std::string(variant.name) + " at " + to_string(Shape{args.m, args.n, args.k}) +
                     " of " + std::to_string(args.bits) + " bits, ld " + std::to_string(args.lda) +
                     " " + std::to_string(args.ld_scale) + " " + std::to_string(args.ldd);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

void run_watched(const Variant& variant, const MixedArgs& args) {
  run_watched(label(variant, args), variant, args);
}

void check_variant(const Variant& variant, MixedProblem& problem, bool exact) {
  check_variant(label(variant, problem.args), variant, problem, exact);
}

std::vector<const Stage*> mixed_rungs() {
  return rungs_that_solve(MixedArgs::kind());
}

}  // namespace ladder_test
