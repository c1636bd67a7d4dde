// What the GPU tests share: problems in guarded memory, and running a variant on one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/run.h"
#include "common/host/verify.h"
#include "common/host/workload.h"
#include "tests/doctest_main.h"

namespace gpu_test {

// --- the device ----------------------------------------------------------------------------------

// Why the ladder cannot run here; "" if it can.
std::string why_no_gpu();

#define NEEDS_GPU()                                                   \
  if (const std::string why = gpu_test::why_no_gpu(); !why.empty()) { \
    return ladder_test::skip_without_gpu(why);                        \
  }

// --- memory --------------------------------------------------------------------------------------

// A row-major matrix of exactly (rows-1)*ld + cols elements between two guard bands. Guards, padding
// and, until written, elements hold POISON, which is a NaN. data() is aligned to 16 bytes, no more.
class Matrix {
 public:
  static constexpr uint16_t POISON = 0xffa5;

  Matrix(int rows, int cols, long long ld);
  ladder::bf16* data() const;
  long long ld() const { return ld_; }

  void poison();             // everything
  long long damage() const;  // words of guards and padding that have changed; synchronises
  std::vector<ladder::bf16> download() const;              // [rows][cols]
  void upload(const std::vector<ladder::bf16>& elements);  // [rows][cols]
  long long differences(const Matrix& other) const;  // elements whose bits differ; of equal shape

 private:
  long long total_words() const;
  int rows_, cols_;
  long long ld_;
  ladder::DeviceBuffer buffer_;
};

// Elements added to the smallest legal leading dimension.
struct Padding {
  int a = 0, b = 0, d = 0;
};
inline constexpr Padding TIGHT{0, 0, 0}, PADDED{8, 24, 16};

// A, B filled (seeds 1 and 2), D poisoned.
struct Problem {
  Matrix a, b, d;
  ladder::GemmArgs args;

  Problem(const ladder::Shape& shape, ladder::Data data, Padding padding = TIGHT,
          cudaStream_t stream = nullptr);
};

// --- running -------------------------------------------------------------------------------------

// "05_wgmma/bn256 at 3x5x16"
std::string label(const ladder::Stage& stage, const ladder::Variant& variant,
                  const ladder::GemmArgs& args);

using Visit = std::function<void(const ladder::Stage&, const ladder::Variant&)>;
int for_each_variant(const Visit& visit, int first_stage = 1);  // returns how many

// Poisons D, runs the variant under a watchdog and checks the result, all of D's surroundings, and
// that A and B are untouched. A failed check names rung, variant and shape.
void check_variant(const ladder::Stage& stage, const ladder::Variant& variant, Problem& problem,
                   const ladder::Reference& reference, bool exact);

// Launches under a watchdog and synchronises the stream. Throws CudaError.
void run_watched(const ladder::Stage& stage, const ladder::Variant& variant,
                 const ladder::GemmArgs& args);

// Elements where |d - c| is more than two results that are both within the tolerance can be apart.
long long far_apart(const ladder::GemmArgs& args, const Matrix& c,
                    const ladder::Reference& reference);

// Never ends by itself.
void launch_spinning_kernel();

// --- processes -----------------------------------------------------------------------------------

struct Ending {
  int exit_code;
  std::string output;  // stdout and stderr
};

// Runs this binary's case `test_case`, which is marked as skipped, in a fresh process whose
// environment has `variables` ("NAME=value ...") added.
Ending run_child(const std::string& test_case, const std::string& variables);

}  // namespace gpu_test
