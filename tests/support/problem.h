// What the tests share that run rungs, on the PTX machine or on a GPU: problems in guarded memory,
// the shapes to try, and running a variant on one. On the machine, which is not to be judged by
// itself, the host fills and verifies; on a GPU, kernels do.
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/run.h"
#include "common/host/verify.h"
#include "common/host/workload.h"
#include "tests/doctest_main.h"

namespace ladder_test {

// --- memory --------------------------------------------------------------------------------------

// A row-major matrix of exactly (rows-1)*ld + cols elements between two guard bands, ld being the
// smallest legal one and `padding` elements. Guards, padding and, until written, elements hold
// POISON, which is a NaN. data() is aligned to 16 bytes, no more.
class Matrix {
 public:
  static constexpr uint16_t POISON = 0xffff;

  Matrix(int rows, int cols, int padding);
  ladder::bf16* data() const;
  long long ld() const { return ld_; }

  void poison();             // everything
  long long damage() const;  // words of guards and padding that have changed; synchronises
  std::vector<ladder::bf16> download() const;              // [rows][cols]
  void upload(const std::vector<ladder::bf16>& elements);  // [rows][cols]
  long long differences(const Matrix& other) const;  // elements whose bits differ; of equal shape

 private:
  int rows_, cols_;
  long long ld_;
  ladder::DeviceBuffer buffer_;
};

// A workspace of exactly so many bytes between two guard bands; 0: none. Its counters are 0, scratch
// and guards are 0xff until written. data() is aligned to 256 bytes.
class Workspace {
 public:
  explicit Workspace(size_t bytes);
  void* data() const;
  size_t bytes() const { return bytes_; }
  long long damage() const;  // bytes of guards that have changed, and of counters that are not 0
  bool written() const;      // whether a kernel has left anything in the scratch

 private:
  size_t bytes_;
  ladder::DeviceBuffer buffer_;
};

// Elements added to the smallest legal leading dimension.
struct Padding {
  int a = 0, b = 0, d = 0;
};
inline constexpr Padding TIGHT{0, 0, 0}, PADDED{8, 24, 16};

// A, B filled (seeds 1 and 2), D poisoned; a workspace if a linked rung needs one.
struct Problem {
  Matrix a, b, d;
  Workspace workspace;
  ladder::GemmArgs args;

  Problem(const ladder::Shape& shape, ladder::Data data, Padding padding = TIGHT,
          cudaStream_t stream = nullptr);
};

// Makes the second half of K take away what the first half adds: D is what rounding has left, which
// depends on the order of the sums.
void cancel(Problem& problem);

// What D must be. Waits for args.stream.
struct Expected {
  explicit Expected(const ladder::GemmArgs& args);
  ladder::Verdict verify(const ladder::GemmArgs& args, bool exact) const;

  ladder::HostReference on_host;  // on the machine, else empty
  ladder::Reference on_gpu;       // on a GPU, else empty
};

// --- rungs and shapes ----------------------------------------------------------------------------

// Every rung of the ladder's first problem, GemmArgs; they come before those of others. Fails the case
// unless all that are registered are those of the files in stages/.
std::span<const ladder::Stage> rungs();

using Visit = std::function<void(const ladder::Stage&, const ladder::Variant&)>;
int for_each_variant(const Visit& visit, int first_stage = 1);  // returns how many, at least 1

// "05_wgmma/bn256 at 3x5x16, ld 16 40 24"
std::string label(const ladder::Stage& stage, const ladder::Variant& variant,
                  const ladder::GemmArgs& args);

// Shapes that are multiples of nothing; larger ones too on a GPU.
std::vector<ladder::Shape> odd_shapes();

// Shapes at the edges of one variant's tile: one tile and one element more; K tiles fewer than,
// equal to and more than the ring's depth. On a GPU also tile counts that share no factor and more
// tiles than SMs, each with every K.
std::set<ladder::Shape> edge_shapes(const ladder::Variant& variant);

// Of a variant that shares the K of tiles: one tile, four and five for three clusters, one for as
// many as fit. One that cuts each tile shares the first and the last only.
struct SharedCall {
  ladder::Shape shape;
  int max_ctas;
};
std::vector<SharedCall> shared_calls(const ladder::Variant& variant);

// CTAs of the cluster that this call gets, the fewest that a grid may have.
int cluster_ctas(const ladder::Variant& variant, const ladder::GemmArgs& args);

// --- calling -------------------------------------------------------------------------------------

// It waits for no other, nor for the default stream.
struct Stream {
  cudaStream_t handle = nullptr;
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

// By the C API: its code. The workspace is that of the stream.
int call(int stage, const ladder::GemmArgs& args);

// --- running -------------------------------------------------------------------------------------

// Launches under a watchdog, which names `where`, and synchronises the stream. Throws CudaError.
void run_watched(const std::string& where, const ladder::Variant& variant,
                 const ladder::Call& call);

// The rungs that solve problems of this kind; at least one.
std::vector<const ladder::Stage*> rungs_that_solve(const ladder::ProblemKind& kind);

// Poisons D, runs the variant under a watchdog and checks the result and everything around it. A
// failed check names `where`. OfAKind: args, d, verify(exact) and damage(), as TypedProblem.
template <class OfAKind>
void check_variant(const std::string& where, const ladder::Variant& variant, OfAKind& problem,
                   bool exact) {
  CAPTURE(where);
  try {
    problem.d.poison();
    run_watched(where, variant, problem.args);
    const ladder::Verdict verdict = problem.verify(exact);
    CHECK_MESSAGE(verdict.ok(), verdict.describe());
    CHECK(problem.damage() == 0);
  } catch (const std::exception& error) {
    FAIL_CHECK(std::string(error.what()));
  }
}

// The same of a call of the ladder.
void run_watched(const ladder::Stage& stage, const ladder::Variant& variant,
                 const ladder::GemmArgs& args);

// Poisons D, runs the variant under a watchdog and checks the result, all of D's surroundings, those
// of the workspace and its counters, and that A and B are untouched. A failed check names rung, variant and shape.
void check_variant(const ladder::Stage& stage, const ladder::Variant& variant, Problem& problem,
                   const Expected& expected, bool exact);

// --- processes -----------------------------------------------------------------------------------

struct Ending {
  int exit_code;        // -1: by a signal
  std::string output;   // stdout and stderr
  bool passed() const;  // exactly one case ran, and passed
};

// Runs this binary's case `test_case`, which is marked as skipped, in a fresh process whose
// environment has `variables` ("NAME=value ...") added.
Ending run_child(const std::string& test_case, const std::string& variables);

}  // namespace ladder_test
