#include "tests/gpu/support.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "common/host/error.h"
#include "common/host/watchdog.h"

namespace gpu_test {

using ladder::check_cuda;

std::string why_no_gpu() {
  static const std::string why = [] {
    try {
      ladder::query_device();
      return std::string();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  }();
  return why;
}

namespace {

long long leading_dimension(int cols, int padding) {
  return (cols + 7LL) / 8 * 8 + padding;
}

}  // namespace

Problem::Problem(const ladder::Shape& shape, ladder::Data data, Padding padding,
                 cudaStream_t stream)
    : a(shape.m, shape.k, leading_dimension(shape.k, padding.a)),
      b(shape.n, shape.k, leading_dimension(shape.k, padding.b)),
      d(shape.m, shape.n, leading_dimension(shape.n, padding.d)) {
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.a = a.data();
  args.lda = a.ld();
  args.b = b.data();
  args.ldb = b.ld();
  args.d = d.data();
  args.ldd = d.ld();
  args.stream = stream;
  ladder::fill_gpu(a.data(), shape.m, shape.k, a.ld(), data, 1, stream);
  ladder::fill_gpu(b.data(), shape.n, shape.k, b.ld(), data, 2, stream);
  check_cuda(cudaStreamSynchronize(stream), "filling a problem");
}

std::string label(const ladder::Stage& stage, const ladder::Variant& variant,
                  const ladder::GemmArgs& args) {
  std::string text = stage.stem + "/" + variant.name + " at " +
                     to_string(ladder::Shape{args.m, args.n, args.k}) + ", ld " +
                     std::to_string(args.lda) + " " + std::to_string(args.ldb) + " " +
                     std::to_string(args.ldd);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

int for_each_variant(const Visit& visit, int first_stage) {
  int count = 0;
  for (const ladder::Stage& stage : ladder::stages()) {
    if (stage.number < first_stage) continue;
    for (const ladder::Variant& variant : stage.variants) {
      visit(stage, variant);
      ++count;
    }
  }
  return count;
}

void run_watched(const ladder::Stage& stage, const ladder::Variant& variant,
                 const ladder::GemmArgs& args) {
  const ladder::Watchdog watchdog(label(stage, variant, args));
  ladder::run(variant, args);
  check_cuda(cudaStreamSynchronize(args.stream), "waiting for the kernel");
}

void check_variant(const ladder::Stage& stage, const ladder::Variant& variant, Problem& problem,
                   const ladder::Reference& reference, bool exact) {
  const std::string where = label(stage, variant, problem.args);
  CAPTURE(where);
  try {
    problem.d.poison();
    run_watched(stage, variant, problem.args);
    const ladder::Verdict verdict = ladder::verify_gpu(problem.args, reference, exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.d.damage() == 0);
    CHECK(problem.a.damage() == 0);
    CHECK(problem.b.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
  }
}

Ending run_child(const std::string& test_case, const std::string& variables) {
  std::array<char, 4096> path{};
  REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  const std::string command =
      "exec env " + variables + " '" + path.data() + "' --no-skip -tc='" + test_case + "' 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ending ending{-1, ""};
  std::array<char, 512> buffer;
  for (size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ending.output.append(buffer.data(), got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}

}  // namespace gpu_test
