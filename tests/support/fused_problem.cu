#include "tests/support/fused_problem.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "common/host/error.h"
#include "common/host/text.h"
#include "common/host/verify_cpu.h"
#include "common/host/verify_gpu.cuh"
#include "common/host/where.h"

namespace ladder_test {

using ladder::bf16;
using ladder::check_cuda;
using ladder::FusedArgs;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

namespace {

FusedArgs sizes_of(const Shape& shape) {
  return *std::static_pointer_cast<FusedArgs>(FusedArgs::kind().sizes_of(shape));
}

int words_of(const FusedArgs& args) {  // of an element of C, bias and D
  return args.type_d == LADDER_FP32 ? 2 : 1;
}

}  // namespace

struct FusedProblem::References {
  ladder::HostReference on_host;  // on the machine
  ladder::Reference on_gpu;       // on a GPU
};

FusedProblem::FusedProblem(const Shape& shape, ladder::Data data, const Added& added,
                           Padding padding, cudaStream_t stream)
    : a(shape.m, shape.k, padding.a),
      b(shape.n, shape.k, padding.b),
      c(0, 0, 0),
      bias(0, 0, 0),
      d(0, 0, 0),
      args(sizes_of(shape)),
      of_c_(0, 0, 0),
      in_place_(added.in_place) {
  const int words = words_of(args);
  const bool has_c = added.beta != 0;
  args.alpha = added.alpha;
  args.beta = added.beta;
  args.stream = stream;
  args.a = a.data();
  args.lda = a.ld();
  args.b = b.data();
  args.ldb = b.ld();
  const auto fill_bf16 = on_machine() ? ladder::fill_from_host<bf16> : ladder::fill_gpu<bf16>;
  fill_bf16(a.data(), shape.m, shape.k, args.lda, data, 1, stream);
  fill_bf16(b.data(), shape.n, shape.k, args.ldb, data, 2, stream);
  if (has_c) c = Matrix(shape.m, shape.n * words, padding.b);
  if (added.bias) bias = Matrix(1, shape.n * words, 0);
  ladder::with_fused_type(args.type_d, [&]<class Out>() {
    const auto fill = on_machine() ? ladder::fill_from_host<Out> : ladder::fill_gpu<Out>;
    args.ldc = c.ld() / words;
    if (has_c) {
      args.c = c.data();
      fill(reinterpret_cast<Out*>(c.data()), shape.m, shape.n, args.ldc, data, 3, stream);
    }
    if (added.bias) {
      args.bias = bias.data();
      fill(reinterpret_cast<Out*>(bias.data()), 1, shape.n, shape.n, data, 4, stream);
    }
  });
  check_cuda(cudaStreamSynchronize(stream), "filling a problem");
  if (has_c) {
    of_c_ = Matrix(shape.m, shape.n * words, 0);
    of_c_.upload(c.download());
  }
  if (!in_place_) d = Matrix(shape.m, args.columns() * words, padding.d);
  args.d = in_place_ ? c.data() : d.data();
  args.ldd = in_place_ ? args.ldc : d.ld() / words;
}

FusedProblem::~FusedProblem() = default;

void FusedProblem::refill() {
  if (!in_place_) d.poison();
  if (in_place_) c.upload(of_c_.download());
  check_cuda(cudaDeviceSynchronize(), "filling a problem");
}

ladder::Verdict FusedProblem::verify(bool exact) {
  const bool first = references_ == nullptr;
  if (first) {
    // C as it was, wherever D is now.
    FusedArgs before = args;
    if (args.reads_c()) {
      before.c = of_c_.data();
      before.ldc = of_c_.ld() / words_of(args);
    }
    references_ = std::make_unique<References>();
    if (on_machine()) {
      references_->on_host = ladder::fused_reference_on_host(before);
    } else {
      references_->on_gpu = ladder::fused_reference_on_gpu(before);
    }
  }
  return on_machine() ? ladder::verify_fused(args, references_->on_host, exact)
                      : ladder::verify_fused(args, references_->on_gpu, exact);
}

long long FusedProblem::damage() const {
  long long all = a.damage() + b.damage() + bias.damage() + c.damage();
  if (!in_place_) all += d.damage() + (args.reads_c() ? c.differences(of_c_) : 0);
  return all;
}

bool FusedProblem::is_exact() const {
  return ladder::is_exact(args.activation);
}

Shape fused_shape(int m, int n, int k, const std::string& activation, const std::string& type) {
  Shape shape{m, n, k};
  const std::string given[] = {activation, type};
  const std::vector<ladder::Parameter> parameters = FusedArgs::kind().parameters();
  REQUIRE(parameters.size() == 3);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<std::string>& values = parameters[i].values;
    const auto found = std::find(values.begin(), values.end(), given[i]);
    REQUIRE(found != values.end());
    shape.parameters[i] = static_cast<int>(found - values.begin());
  }
  return shape;
}

std::string label(const Variant& variant, const FusedArgs& args) {
  std::string text = ladder::format(
      "%s at %s %s%s, alpha %g beta %g%s%s, ld %lld %lld %lld %lld", variant.name,
      to_string(Shape{args.m, args.n, args.k}).c_str(), ladder::ACTIVATION_NAMES[args.activation],
      args.type_d == LADDER_FP32 ? " fp32" : "", static_cast<double>(args.alpha),
      static_cast<double>(args.beta), args.bias == nullptr ? "" : " bias",
      args.reads_c() && args.c == args.d ? " in place" : "", args.lda, args.ldb, args.ldc,
      args.ldd);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

void run_watched(const Variant& variant, const FusedArgs& args) {
  run_watched(label(variant, args), variant, args);
}

void check_variant(const Variant& variant, FusedProblem& problem, bool exact) {
  const std::string where = label(variant, problem.args);
  CAPTURE(where);
  try {
    problem.refill();
    run_watched(where, variant, problem.args);
    const ladder::Verdict verdict = problem.verify(exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(std::string(error.what()));
  }
}

std::vector<ActivationAndType> activations_and_types() {
  std::vector<ActivationAndType> all;
  for (const char* activation : ladder::ACTIVATION_NAMES) {
    for (const char* type : {"bf16", "bf16_fp32"}) all.push_back({activation, type});
  }
  return all;
}

std::vector<const Stage*> fused_rungs() {
  return rungs_that_solve(FusedArgs::kind());
}

}  // namespace ladder_test
