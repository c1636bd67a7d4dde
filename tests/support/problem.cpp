#include "tests/support/problem.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>

#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"
#include "tests/support/matrix_kernels.h"

namespace ladder_test {

using ladder::bf16;
using ladder::check_cuda;
using ladder::GemmArgs;
using ladder::on_machine;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;

// --- memory --------------------------------------------------------------------------------------

namespace {

constexpr size_t WORKSPACE_GUARD_BYTES = 64 << 10;
constexpr long long GUARD = 1032;  // elements: 2064 bytes, a multiple of 16 and not of 32

long long span_of(int rows, int cols, long long ld) {
  return rows == 0 || cols == 0 ? 0 : (rows - 1) * ld + cols;
}

std::vector<uint16_t> words_of(const ladder::DeviceBuffer& buffer) {
  std::vector<uint16_t> words(buffer.bytes() / sizeof(uint16_t));
  check_cuda(cudaMemcpy(words.data(), buffer.data(), buffer.bytes(), cudaMemcpyDeviceToHost),
             "reading a matrix");
  return words;
}

}  // namespace

Matrix::Matrix(int rows, int cols, int padding)
    : rows_(rows),
      cols_(cols),
      ld_((cols + 7LL) / 8 * 8 + padding),
      buffer_(static_cast<size_t>(2 * GUARD + span_of(rows, cols, ld_)) * sizeof(bf16)) {
  poison();
}

bf16* Matrix::data() const {
  return buffer_.as<bf16>() + GUARD;
}

void Matrix::poison() {
  static_assert(POISON == 0xffff, "both of its bytes are 0xff");
  check_cuda(cudaMemset(buffer_.data(), 0xff, buffer_.bytes()), "poisoning a matrix");
  check_cuda(cudaDeviceSynchronize(), "poisoning a matrix");
}

long long Matrix::damage() const {
  const long long span = span_of(rows_, cols_, ld_);
  if (!on_machine()) {
    return count_damage(buffer_.as<uint16_t>(), 2 * GUARD + span, GUARD, span, cols_, ld_, POISON);
  }
  const std::vector<uint16_t> words = words_of(buffer_);
  long long damaged = 0;
  for (long long i = 0; i < 2 * GUARD + span; ++i) {
    const long long at = i - GUARD;  // from the matrix's first element
    const bool is_element = at >= 0 && at < span && at % ld_ < cols_;
    damaged += !is_element && words[i] != POISON;
  }
  return damaged;
}

long long Matrix::differences(const Matrix& other) const {
  if (!on_machine()) {
    return count_differences(buffer_.as<uint16_t>() + GUARD, ld_,
                             other.buffer_.as<uint16_t>() + GUARD, other.ld_, rows_, cols_);
  }
  const std::vector<uint16_t> mine = words_of(buffer_), theirs = words_of(other.buffer_);
  long long different = 0;
  for (long long row = 0; row < rows_; ++row) {
    for (long long col = 0; col < cols_; ++col) {
      different += mine[GUARD + row * ld_ + col] != theirs[GUARD + row * other.ld_ + col];
    }
  }
  return different;
}

std::vector<bf16> Matrix::download() const {
  std::vector<bf16> elements(static_cast<size_t>(rows_) * cols_);
  const size_t row_bytes = cols_ * sizeof(bf16);
  check_cuda(cudaMemcpy2D(elements.data(), row_bytes, data(), ld_ * sizeof(bf16), row_bytes, rows_,
                          cudaMemcpyDeviceToHost),
             "downloading a matrix");
  return elements;
}

void Matrix::upload(const std::vector<bf16>& elements) {
  const size_t row_bytes = cols_ * sizeof(bf16);
  check_cuda(cudaMemcpy2D(data(), ld_ * sizeof(bf16), elements.data(), row_bytes, row_bytes, rows_,
                          cudaMemcpyHostToDevice),
             "uploading a matrix");
}

Workspace::Workspace(size_t bytes)
    : bytes_(bytes), buffer_(bytes == 0 ? 0 : bytes + 2 * WORKSPACE_GUARD_BYTES) {
  if (bytes == 0) return;
  check_cuda(cudaMemset(buffer_.data(), 0xff, buffer_.bytes()), "poisoning a workspace");
  check_cuda(cudaMemset(data(), 0, std::min(bytes, ladder::WORKSPACE_COUNTER_BYTES)),
             "clearing counters");
  check_cuda(cudaDeviceSynchronize(), "poisoning a workspace");
}

void* Workspace::data() const {
  return bytes_ == 0 ? nullptr : buffer_.as<char>() + WORKSPACE_GUARD_BYTES;
}

long long Workspace::damage() const {
  if (bytes_ == 0) return 0;
  const auto others = [](const char* device, size_t bytes, unsigned char expected) {
    std::vector<unsigned char> found(bytes);
    check_cuda(cudaMemcpy(found.data(), device, bytes, cudaMemcpyDeviceToHost),
               "reading a workspace");
    return bytes - static_cast<size_t>(std::count(found.begin(), found.end(), expected));
  };
  check_cuda(cudaDeviceSynchronize(), "reading a workspace");
  const char* const begin = static_cast<const char*>(data());
  return static_cast<long long>(
      others(begin - WORKSPACE_GUARD_BYTES, WORKSPACE_GUARD_BYTES, 0xff) +
      others(begin, std::min(bytes_, ladder::WORKSPACE_COUNTER_BYTES), 0) +
      others(begin + bytes_, WORKSPACE_GUARD_BYTES, 0xff));
}

bool Workspace::written() const {
  const size_t counters = std::min(bytes_, ladder::WORKSPACE_COUNTER_BYTES);
  std::vector<unsigned char> scratch(bytes_ - counters);
  if (scratch.empty()) return false;
  check_cuda(cudaMemcpy(scratch.data(), static_cast<const char*>(data()) + counters, scratch.size(),
                        cudaMemcpyDeviceToHost),
             "reading a workspace");
  return std::any_of(scratch.begin(), scratch.end(), [](unsigned char c) { return c != 0xff; });
}

Problem::Problem(const Shape& shape, ladder::Data data, Padding padding, cudaStream_t stream)
    : a(shape.m, shape.k, padding.a),
      b(shape.n, shape.k, padding.b),
      d(shape.m, shape.n, padding.d),
      workspace(ladder::workspace_bytes(ladder::query_device().sm_count)) {
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
  args.workspace = workspace.data();
  const auto fill = on_machine() ? ladder::fill_from_host<bf16> : ladder::fill_gpu<bf16>;
  fill(a.data(), shape.m, shape.k, a.ld(), data, 1, stream);
  fill(b.data(), shape.n, shape.k, b.ld(), data, 2, stream);
  check_cuda(cudaStreamSynchronize(stream), "filling a problem");
}

void cancel(Problem& problem) {
  const int k = problem.args.k, half = k / 2;
  const auto repeat = [&](Matrix& matrix, int rows, uint16_t sign) {
    std::vector<bf16> elements = matrix.download();
    for (int row = 0; row < rows; ++row) {
      bf16* const of_row = &elements[static_cast<size_t>(row) * k];
      for (int i = 0; i < half; ++i) {
        const int bits = std::bit_cast<uint16_t>(of_row[i]) ^ sign;
        of_row[half + i] = std::bit_cast<bf16>(static_cast<uint16_t>(bits));
      }
      if (k % 2 == 1) of_row[k - 1] = std::bit_cast<bf16>(uint16_t{0});
    }
    matrix.upload(elements);
  };
  repeat(problem.a, problem.args.m, 0);
  repeat(problem.b, problem.args.n, 0x8000);
  check_cuda(cudaDeviceSynchronize(), "uploading a problem");
}

Expected::Expected(const GemmArgs& args) {
  if (on_machine()) {
    on_host = ladder::reference_on_host(args);
  } else {
    on_gpu = ladder::reference_gpu(args);
    check_cuda(cudaStreamSynchronize(args.stream), "waiting for the reference");
  }
}

ladder::Verdict Expected::verify(const GemmArgs& args, bool exact) const {
  return on_machine() ? ladder::verify_on_host(args, on_host, exact)
                      : ladder::verify_gpu(args, on_gpu, exact);
}

// --- rungs and shapes ----------------------------------------------------------------------------

std::span<const Stage> rungs() {
  std::set<std::string> promised, registered;
  for (const auto& entry : std::filesystem::directory_iterator("stages")) {
    if (entry.path().extension() == ".cu") promised.insert(entry.path().stem().string());
  }
  for (const Stage& stage : ladder::stages()) registered.insert(stage.stem);
  REQUIRE(!promised.empty());
  REQUIRE(registered == promised);
  const std::vector<Stage>& all = ladder::stages();
  const auto other = std::find_if(all.begin(), all.end(), [](const Stage& stage) {
    return &stage.kind() != &GemmArgs::kind();
  });
  return {all.begin(), other};
}

int for_each_variant(const Visit& visit, int first_stage) {
  int count = 0;
  for (const Stage& stage : rungs()) {
    if (stage.number < first_stage) continue;
    REQUIRE(!stage.variants.empty());
    for (const Variant& variant : stage.variants) {
      visit(stage, variant);
      ++count;
    }
  }
  REQUIRE(count > 0);
  return count;
}

std::string label(const Stage& stage, const Variant& variant, const GemmArgs& args) {
  std::string text = stage.stem + "/" + variant.name + " at " +
                     to_string(Shape{args.m, args.n, args.k}) + ", ld " + std::to_string(args.lda) +
                     " " + std::to_string(args.ldb) + " " + std::to_string(args.ldd);
  if (args.max_ctas != 0) text += ", at most " + std::to_string(args.max_ctas) + " CTAs";
  return text;
}

std::vector<Shape> odd_shapes() {
  std::vector<Shape> shapes = {{1, 1, 1},     {3, 5, 16},      {130, 66, 1},    {257, 1, 65},
                               {1, 257, 129}, {129, 257, 200}, {333, 530, 328}, {128, 256, 64}};
  if (!on_machine()) {
    shapes.insert(shapes.end(), {{1, 1, 8},
                                 {127, 129, 72},
                                 {333, 1111, 7},
                                 {129, 257, 65},
                                 {511, 513, 1023},
                                 {1000, 3000, 1496},
                                 {8191, 4097, 1000},
                                 {64, 7168, 16384}});
  }
  return shapes;
}

std::set<Shape> edge_shapes(const Variant& variant) {
  // Of a chooser, those of what it takes for some shape.
  const ladder::Kernel& v =
      ladder::chosen(variant, *variant.kind().sizes_of({512, 512, 512})).kernel;
  const int block_m = v.bm * v.cluster_m, block_n = v.bn * v.cluster_n;
  const int below = v.bk * std::max(v.depth - 1, 1), full = v.bk * v.depth;
  const int above = v.bk * (2 * v.depth + 1) + 5;
  if (on_machine()) {
    return {{block_m, block_n, full},
            {block_m + 1, block_n + 1, full + 1},
            {4 * v.bm + 3, 9, below},
            {1, 3 * v.bn + 1, above}};
  }
  const std::pair<int, int> sides[] = {{block_m, block_n},
                                       {block_m + 1, block_n + 1},
                                       {4 * v.bm + 3, 2 * v.bn + 9},
                                       {1, 6 * v.bn + 1},
                                       {17 * v.bm, 13 * v.bn - 1}};
  std::set<Shape> shapes;
  for (const auto& [m, n] : sides) {
    for (const int k : {v.bk - 3, below, full, full + 1, above}) shapes.insert({m, n, k});
  }
  return shapes;
}

std::vector<SharedCall> shared_calls(const Variant& variant) {
  const ladder::Kernel& v = variant.kernel;
  const int m = v.bm * v.cluster_m, three = 3 * v.cluster_m * v.cluster_n;
  return {{{m - 3, v.bn - 5, 13 * v.bk + 5}, three},
          {{m, 3 * v.bn + 1, 9 * v.bk}, three},
          {{m - 7, 4 * v.bn + 9, 5 * v.bk - 1}, three},
          {{m / 2 + 1, v.bn, 30 * v.bk + 7}, 0}};
}

int cluster_ctas(const Variant& variant, const GemmArgs& args) {
  return ladder::chosen(variant, args).rules().cluster;
}

// --- calling -------------------------------------------------------------------------------------

Stream::Stream() {
  check_cuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "creating a stream");
}

Stream::~Stream() {
  cudaStreamDestroy(handle);
}

int call(int stage, const GemmArgs& args) {
  return ladder_gemm_bf16(stage, args.m, args.n, args.k, args.a, args.lda, args.b, args.ldb, args.d,
                          args.ldd, args.stream);
}

// --- running -------------------------------------------------------------------------------------

void run_watched(const std::string& where, const Variant& variant, const ladder::Call& call) {
  const ladder::Watchdog watchdog(where);
  ladder::run(variant, call);
  check_cuda(cudaStreamSynchronize(call.stream), "waiting for the kernel");
}

std::vector<const Stage*> rungs_that_solve(const ladder::ProblemKind& kind) {
  std::vector<const Stage*> found;
  for (const Stage& stage : ladder::stages()) {
    if (&stage.kind() == &kind) found.push_back(&stage);
  }
  REQUIRE(!found.empty());
  return found;
}

void run_watched(const Stage& stage, const Variant& variant, const GemmArgs& args) {
  run_watched(label(stage, variant, args), variant, args);
}

void check_variant(const Stage& stage, const Variant& variant, Problem& problem,
                   const Expected& expected, bool exact) {
  const std::string where = label(stage, variant, problem.args);
  CAPTURE(where);
  try {
    problem.d.poison();
    run_watched(stage, variant, problem.args);
    const ladder::Verdict verdict = expected.verify(problem.args, exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.d.damage() == 0);
    CHECK(problem.a.damage() == 0);
    CHECK(problem.b.damage() == 0);
    CHECK(problem.workspace.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(std::string(error.what()));
  }
}

// --- processes -----------------------------------------------------------------------------------

bool Ending::passed() const {
  return exit_code == 0 && output.find(": 1 passed, 0 failed, 0 skipped\n") != std::string::npos;
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

}  // namespace ladder_test
