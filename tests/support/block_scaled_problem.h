// Problems of 8-bit operands with scales in guarded memory.
#pragma once

#include <functional>
#include <memory>

#include "common/host/block_scaled.h"
#include "tests/support/problem.h"

namespace ladder_test {

// As Matrix of problem.h, of elements of any size: rows of `ld` elements, the last one ends at its last
// column; guards, padding and, until written, elements are bytes of 0xff. data() is aligned to 16 bytes,
// no more.
class GuardedBytes {
 public:
  GuardedBytes(long long rows, long long cols, long long ld, int element_bytes);
  void* data() const;
  void upload(const void* elements);  // [rows][cols]
  long long damage() const;           // bytes of guards and padding that are not 0xff; synchronises

 private:
  size_t span() const;
  size_t row_bytes_, ld_bytes_, rows_;
  ladder::DeviceBuffer buffer_;
};

// More than the smallest leading dimensions: bytes of A and B, floats of the scales, elements of D.
struct ScaledPadding {
  int a = 0, b = 0, scale_a = 0, scale_b = 0, d = 0;
};
inline constexpr ScaledPadding SCALED_TIGHT{}, SCALED_PADDED{16, 48, 8, 3, 24};

// What a scale is, by its row and column in memory.
using ScaleOf = std::function<float(long long, long long)>;

// A, B filled and D poisoned; a workspace if a linked rung needs one. Data::ints: integers, and scales that are powers of two, so that D is
// exact; others are quantized from bf16. The shape has the type among its parameters.
class BlockScaledProblem {
 public:
  BlockScaledProblem(const ladder::Shape& shape, ladder::Data data,
                     const ScaledPadding& padding = SCALED_TIGHT, cudaStream_t stream = nullptr);
  ~BlockScaledProblem();
  BlockScaledProblem(const BlockScaledProblem&) = delete;
  BlockScaledProblem& operator=(const BlockScaledProblem&) = delete;

  void set_scales(const ScaleOf& of_a, const ScaleOf& of_b);
  void set_elements(const std::vector<uint8_t>& of_a, const std::vector<uint8_t>& of_b);

  ladder::Verdict verify(bool exact);  // against a reference of `args` as the first call found it
  long long damage() const;            // to guards and padding of all, and counters left

  GuardedBytes a, scale_a, b, scale_b;
  Matrix d;
  Workspace workspace;
  ladder::BlockScaledArgs args;

 private:
  struct References;
  std::unique_ptr<References> references_;
};

// A shape of that type, "e4m3" or "s8", with scales that are "blocks" or "tensor".
ladder::Shape scaled_shape(int m, int n, int k, const std::string& type,
                           const std::string& scales = "blocks");

// "promoted at 3x5x16 e4m3, ld 16 16 8, scales 4 1"
std::string label(const ladder::Variant& variant, const ladder::BlockScaledArgs& args);

// As run_watched and check_variant of problem.h.
void run_watched(const ladder::Variant& variant, const ladder::BlockScaledArgs& args);
void check_variant(const ladder::Variant& variant, BlockScaledProblem& problem, bool exact);

// The rungs that solve this problem; at least one.
std::vector<const ladder::Stage*> scaled_rungs();

}  // namespace ladder_test
