// The kernels of support.h.
#include "common/host/error.h"
#include "common/host/tolerance.h"
#include "tests/gpu/support.h"

namespace gpu_test {
namespace {

using ladder::bf16;
using ladder::check_cuda;

constexpr int THREADS = 256, CTAS = 1024;

__device__ long long first_index() {
  return blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
}

__device__ long long index_stride() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

__global__ void poison_kernel(uint16_t* words, long long count) {
  for (long long i = first_index(); i < count; i += index_stride()) words[i] = Matrix::POISON;
}

__global__ void damage_kernel(const uint16_t* words, long long count, long long guard,
                              long long span, int cols, long long ld, unsigned long long* damaged) {
  for (long long i = first_index(); i < count; i += index_stride()) {
    const long long at = i - guard;  // from the matrix's first element
    const bool is_element = at >= 0 && at < span && at % ld < cols;
    if (!is_element && words[i] != Matrix::POISON) atomicAdd(damaged, 1ull);
  }
}

__global__ void difference_kernel(const uint16_t* x, const uint16_t* y, int cols, long long ld_x,
                                  long long ld_y, long long elems, unsigned long long* different) {
  for (long long i = first_index(); i < elems; i += index_stride()) {
    if (x[i / cols * ld_x + i % cols] != y[i / cols * ld_y + i % cols]) atomicAdd(different, 1ull);
  }
}

__global__ void far_apart_kernel(const bf16* d, long long ldd, const bf16* c, long long ldc, int n,
                                 long long elems, const float* r, const float* s,
                                 unsigned long long* far) {
  for (long long i = first_index(); i < elems; i += index_stride()) {
    const double got = __bfloat162float(d[i / n * ldd + i % n]);
    const double other = __bfloat162float(c[i / n * ldc + i % n]);
    const bool near = ladder::distance(got, other) <= 2 * ladder::tolerance(r[i], s[i]);
    if (!near) atomicAdd(far, 1ull);
  }
}

__global__ void spin_kernel(volatile int* never) {
  while (*never == 0) {
  }
}

// A counter on the device, read once.
class Counter {
 public:
  Counter() : buffer_(sizeof(unsigned long long)) {
    check_cuda(cudaMemset(buffer_.data(), 0, buffer_.bytes()), "clearing a counter");
  }
  unsigned long long* device() const { return buffer_.as<unsigned long long>(); }
  long long read() const {
    check_cuda(cudaGetLastError(), "launching a checking kernel");
    unsigned long long value = 0;
    check_cuda(cudaMemcpy(&value, buffer_.data(), sizeof value, cudaMemcpyDeviceToHost),
               "reading a counter");
    return static_cast<long long>(value);
  }

 private:
  ladder::DeviceBuffer buffer_;
};

constexpr long long GUARD = 1032;  // elements: 2064 bytes, a multiple of 16 and not of 32

long long span_of(int rows, int cols, long long ld) {
  return rows == 0 || cols == 0 ? 0 : (rows - 1) * ld + cols;
}

}  // namespace

Matrix::Matrix(int rows, int cols, long long ld)
    : rows_(rows),
      cols_(cols),
      ld_(ld),
      buffer_(static_cast<size_t>(2 * GUARD + span_of(rows, cols, ld)) * sizeof(bf16)) {
  poison();
}

bf16* Matrix::data() const {
  return buffer_.as<bf16>() + GUARD;
}

long long Matrix::total_words() const {
  return static_cast<long long>(buffer_.bytes() / sizeof(uint16_t));
}

void Matrix::poison() {
  poison_kernel<<<CTAS, THREADS>>>(buffer_.as<uint16_t>(), total_words());
  check_cuda(cudaGetLastError(), "launching the poison kernel");
  check_cuda(cudaDeviceSynchronize(), "poisoning a matrix");
}

long long Matrix::damage() const {
  const Counter damaged;
  damage_kernel<<<CTAS, THREADS>>>(buffer_.as<uint16_t>(), total_words(), GUARD,
                                   span_of(rows_, cols_, ld_), cols_, ld_, damaged.device());
  return damaged.read();
}

long long Matrix::differences(const Matrix& other) const {
  const Counter different;
  difference_kernel<<<CTAS, THREADS>>>(
      reinterpret_cast<const uint16_t*>(data()), reinterpret_cast<const uint16_t*>(other.data()),
      cols_, ld_, other.ld_, static_cast<long long>(rows_) * cols_, different.device());
  return different.read();
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

long long far_apart(const ladder::GemmArgs& args, const Matrix& c,
                    const ladder::Reference& reference) {
  const Counter far;
  far_apart_kernel<<<CTAS, THREADS>>>(
      args.d, args.ldd, c.data(), c.ld(), args.n, static_cast<long long>(args.m) * args.n,
      reference.r.as<float>(), reference.s.as<float>(), far.device());
  return far.read();
}

void launch_spinning_kernel() {
  static const Counter never;
  spin_kernel<<<1, 1>>>(reinterpret_cast<volatile int*>(never.device()));
  check_cuda(cudaGetLastError(), "launching the spinning kernel");
}

}  // namespace gpu_test
