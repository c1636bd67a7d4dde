#include "tests/support/typed_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>

#include "common/host/error.h"
#include "common/host/verify_cpu.h"
#include "common/host/verify_gpu.cuh"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace ladder_test {

using ladder::check_cuda;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::TypedArgs;
using ladder::Variant;

namespace {

std::shared_ptr<TypedArgs> sizes_of(const Shape& shape) {
  return std::static_pointer_cast<TypedArgs>(TypedArgs::kind().sizes_of(shape));
}

// Of elements of that type, in words.
Matrix words(int rows, int cols, int type, int padding) {
  return Matrix(rows, cols * ladder::bytes_of_type(type) / 2, padding);
}

long long elements(const Matrix& matrix, int type) {
  return matrix.ld() * 2 / ladder::bytes_of_type(type);
}

}  // namespace

struct TypedProblem::References {
  ladder::HostReference on_host;  // on the machine
  ladder::Reference on_gpu;       // on a GPU
};

TypedProblem::TypedProblem(const Shape& shape, ladder::Data data, Padding padding,
                           cudaStream_t stream)
    : a(0, 0, 0), b(0, 0, 0), d(0, 0, 0), args(*sizes_of(shape)) {
  const bool mn_a = args.mn_major_a != 0, mn_b = args.mn_major_b != 0;
  const int a_rows = mn_a ? shape.k : shape.m, a_cols = mn_a ? shape.m : shape.k;
  const int b_rows = mn_b ? shape.k : shape.n, b_cols = mn_b ? shape.n : shape.k;
  a = words(a_rows, a_cols, args.type, padding.a);
  b = words(b_rows, b_cols, args.type, padding.b);
  d = words(shape.m, shape.n, args.type_d, padding.d);
  args.a = a.data();
  args.lda = elements(a, args.type);
  args.b = b.data();
  args.ldb = elements(b, args.type);
  args.d = d.data();
  args.ldd = elements(d, args.type_d);
  args.stream = stream;
  ladder::with_types(args, [&]<class In, class Out>() {
    const auto fill = on_machine() ? ladder::fill_from_host<In> : ladder::fill_gpu<In>;
    fill(reinterpret_cast<In*>(a.data()), a_rows, a_cols, args.lda, data, 1, stream);
    fill(reinterpret_cast<In*>(b.data()), b_rows, b_cols, args.ldb, data, 2, stream);
  });
  check_cuda(cudaStreamSynchronize(stream), "filling a problem");
}

TypedProblem::~TypedProblem() = default;

ladder::Verdict TypedProblem::verify(bool exact) {
  return ladder::with_types(args, [&]<class In, class Out>() {
    const auto product = ladder::as_matmul<In, Out>(args);
    const bool first = references_ == nullptr;
    if (first) references_ = std::make_unique<References>();
    if (on_machine()) {
      if (first) references_->on_host = ladder::reference_on_host(product);
      return ladder::verify_on_host(product, references_->on_host, exact);
    }
    if (first) references_->on_gpu = ladder::reference_gpu(product);
    return ladder::verify_gpu(product, references_->on_gpu, exact);
  });
}

long long TypedProblem::damage() const {
  return a.damage() + b.damage() + d.damage();
}

Shape typed_shape(int m, int n, int k, const std::string& type, const std::string& layout) {
  Shape shape{m, n, k};
  const std::string given[] = {type, layout};
  const std::vector<ladder::Parameter> parameters = TypedArgs::kind().parameters();
  REQUIRE(parameters.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<std::string>& values = parameters[i].values;
    const auto found = std::find(values.begin(), values.end(), given[i]);
    REQUIRE(found != values.end());
    shape.parameters[i] = static_cast<int>(found - values.begin());
  }
  return shape;
}

std::string label(const Variant& variant, const TypedArgs& args) {
  std::string types;
  for (const ladder::TypePair& pair : ladder::TYPE_PAIRS) {
    if (pair.type == args.type && pair.type_d == args.type_d) types = pair.name;
  }
  for (const ladder::Layout& layout : ladder::LAYOUTS) {
    if (layout.mn_major_a == args.mn_major_a && layout.mn_major_b == args.mn_major_b) {
      types += std::string(" ") + layout.name;
    }
  }
  std::string text = std::string(variant.name) + " at " + to_string(Shape{args.m, args.n, args.k}) +
                     " " + types + ", ld " + std::to_string(args.lda) + " " +
                     std::to_string(args.ldb) + " " + std::to_string(args.ldd);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

void run_watched(const Variant& variant, const TypedArgs& args) {
  run_watched(label(variant, args), variant, args);
}

void check_variant(const Variant& variant, TypedProblem& problem, bool exact) {
  check_variant(label(variant, problem.args), variant, problem, exact);
}

std::vector<TypeAndLayout> types_and_layouts() {
  std::vector<TypeAndLayout> all;
  for (const ladder::TypePair& pair : ladder::TYPE_PAIRS) {
    for (const ladder::Layout& layout : ladder::LAYOUTS) {
      const bool k_major = !layout.mn_major_a && !layout.mn_major_b;
      if (pair.type != LADDER_TF32 || k_major) all.push_back({pair.name, layout.name});
    }
  }
  return all;
}

std::vector<const Stage*> typed_rungs() {
  return rungs_that_solve(TypedArgs::kind());
}

}  // namespace ladder_test
