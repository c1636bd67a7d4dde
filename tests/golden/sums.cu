// What the tensor cores keep of a sum.
//
//   sums facts OUT.txt [DUMP]    probes of single wgmma and short chains: a line each, with a hash of D;
//                                DUMP: D itself, 512 words a probe
//   sums errors OUT.json         the error of e4m3 sums over long K, with and without promotion
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "common/host/data.h"
#include "common/host/element.h"
#include "common/ptx/barrier.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/wgmma.cuh"
#include "common/tile/operand_tile.h"
#include "tests/golden/sums.h"

namespace sums {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorName(status));
}

template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    check(cudaMalloc(reinterpret_cast<void**>(&at_), count_ * sizeof(T)));
    check(cudaMemcpy(at_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(at_); }
  T* at() { return at_; }
  std::vector<T> read() {
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* at_ = nullptr;
  size_t count_;
};

// wgmma m64n8 of 32 bytes of K: D = A · B^T + (accumulate ? D : 0).
template <Type TYPE>
__device__ void multiply(uint32_t (&d)[4], uint64_t a, uint64_t b, bool accumulate) {
#define SUMS_WGMMA(SHAPE_AND_TYPES, REST)                                                         \
  asm volatile(                                                                                   \
      "{ .reg .pred p;  setp.ne.b32 p, %6, 0;\n"                                                  \
      "  wgmma.mma_async.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, %4, %5, p" REST "; }" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                            \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate))                                         \
      : "memory")
  if constexpr (TYPE == Type::e4m3) SUMS_WGMMA("m64n8k32.f32.e4m3.e4m3", ", 1, 1");
  if constexpr (TYPE == Type::bf16) SUMS_WGMMA("m64n8k16.f32.bf16.bf16", ", 1, 1, 0, 0");
  if constexpr (TYPE == Type::fp16) SUMS_WGMMA("m64n8k16.f32.f16.f16", ", 1, 1, 0, 0");
  if constexpr (TYPE == Type::tf32) SUMS_WGMMA("m64n8k8.f32.tf32.tf32", ", 1, 1");
  if constexpr (TYPE == Type::s8) SUMS_WGMMA("m64n8k32.s32.s8.s8", "");
#undef SUMS_WGMMA
}

constexpr int K_BYTES = 128;  // that are in shared memory at a time: four wgmma

// Rows of an operand, K_BYTES or fewer of each from byte k0 on, into the layout without swizzle.
template <int MN>
using Operand = tile::OperandTile<tile::Major::K, 16, 1, MN, K_BYTES>;
template <int MN>
__device__ void load(Operand<MN>& to, const unsigned char* from, long long row_bytes, int k0,
                     int k_bytes) {
  for (int i = static_cast<int>(threadIdx.x); i < MN * k_bytes; i += 128) {
    const int row = i / k_bytes, k = i % k_bytes;
    *to.at(row, k) = from[row * row_bytes + k0 + k];
  }
}

// CTA x: D [64][8] += A [64][k_bytes] · B [8][k_bytes]^T of the x-th eight rows of B. C is what D holds.
// PROMOTE steps of 32 bytes are summed by the tensor cores, then added in fp32; 0: all are.
template <Type TYPE, int PROMOTE>
__global__ __launch_bounds__(128) void product(const unsigned char* a, const unsigned char* b,
                                               uint32_t* d, int k_bytes) {
  __shared__ Operand<ROWS> tile_a;
  __shared__ Operand<COLS> tile_b;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  b += static_cast<long long>(blockIdx.x) * COLS * k_bytes;
  d += static_cast<long long>(blockIdx.x) * ROWS * COLS;
  uint32_t sum[4];
  float all[4] = {};
  uint32_t* const at = d + (warp * 16 + lane / 4) * COLS + lane % 4 * 2;
  for (int i = 0; i < 4; ++i) sum[i] = at[i / 2 * 8 * COLS + i % 2];
  for (int k0 = 0, step = 0; k0 < k_bytes; k0 += K_BYTES) {
    const int here = min(K_BYTES, k_bytes - k0);
    ptx::bar_sync();
    load(tile_a, a, k_bytes, k0, here);
    load(tile_b, b, k_bytes, k0, here);
    ptx::fence_proxy_async_shared_cta();
    ptx::bar_sync();
    for (int k = 0; k < here; k += 32, ++step) {
      const bool first = PROMOTE > 0 && step % max(PROMOTE, 1) == 0;
      const bool last = PROMOTE > 0 && step % max(PROMOTE, 1) == PROMOTE - 1;
      ptx::wgmma_fence();
      multiply<TYPE>(sum, Operand<ROWS>::descriptor(ptx::cvta_to_shared(tile_a.at(0, k))),
                     Operand<COLS>::descriptor(ptx::cvta_to_shared(tile_b.at(0, k))), !first);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      for (int i = 0; i < 4; ++i) all[i] += last ? __uint_as_float(sum[i]) : 0.0f;
    }
  }
  for (int i = 0; i < 4; ++i) {
    at[i / 2 * 8 * COLS + i % 2] = PROMOTE > 0 ? __float_as_uint(all[i]) : sum[i];
  }
}

std::vector<unsigned char> pack(const std::vector<uint32_t>& elements, int bytes) {
  std::vector<unsigned char> packed(elements.size() * static_cast<size_t>(bytes));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(&packed[i * static_cast<size_t>(bytes)], &elements[i], static_cast<size_t>(bytes));
  }
  return packed;
}

template <Type TYPE>
std::vector<uint32_t> answer(const Probe& probe) {
  Buffer<unsigned char> a(pack(probe.a, bytes_of(TYPE))), b(pack(probe.b, bytes_of(TYPE)));
  Buffer<uint32_t> d(probe.c);
  product<TYPE, 0><<<1, 128>>>(a.at(), b.at(), d.at(), probe.steps * 32);
  return d.read();
}

std::vector<uint32_t> answer(const Probe& probe) {
  switch (probe.type) {
    case Type::e4m3:
      return answer<Type::e4m3>(probe);
    case Type::bf16:
      return answer<Type::bf16>(probe);
    case Type::fp16:
      return answer<Type::fp16>(probe);
    case Type::tf32:
      return answer<Type::tf32>(probe);
    default:
      return answer<Type::s8>(probe);
  }
}

int write_facts(const char* path, const char* dump_path) {
  std::FILE* out = std::fopen(path, "w");
  std::FILE* dump = dump_path == nullptr ? nullptr : std::fopen(dump_path, "wb");
  if (out == nullptr) throw std::runtime_error("cannot write " + std::string(path));
  for (const Type type : {Type::e4m3, Type::bf16, Type::fp16, Type::tf32, Type::s8}) {
    for (int kind = 0; kind < KINDS; ++kind) {
      for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        const std::vector<uint32_t> d = answer(make_probe(type, static_cast<Kind>(kind), seed));
        if (dump != nullptr) std::fwrite(d.data(), sizeof d[0], d.size(), dump);
        std::fprintf(out, "%s %s %llu %016llx\n", TYPE_NAMES[static_cast<int>(type)],
                     KIND_NAMES[kind], static_cast<unsigned long long>(seed),
                     static_cast<unsigned long long>(hash_of(d)));
      }
    }
  }
  if (dump != nullptr) std::fclose(dump);
  return std::fclose(out) == 0 ? 0 : 2;
}

// --- errors over long K --------------------------------------------------------------------------

constexpr int TILES = 256;           // of eight columns
constexpr float SCALE = 6.0f / 448;  // of both operands: normal data are from -6 to 6

struct Errors {
  double rms, largest, bias;  // of the error, as shares of the results' rms; bias: towards 0
  double share_of_bf16;       // rms of the error as a share of that of rounding to bf16
};

template <int PROMOTE>
Errors errors_of(Buffer<unsigned char>& a, Buffer<unsigned char>& b, int k,
                 const std::vector<double>& exact) {
  Buffer<uint32_t> d(std::vector<uint32_t>(exact.size(), 0));
  product<Type::e4m3, PROMOTE><<<TILES, 128>>>(a.at(), b.at(), d.at(), k);
  const std::vector<uint32_t> bits = d.read();
  double squares = 0, error_squares = 0, largest = 0, towards_zero = 0, rounding_squares = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = double{std::bit_cast<float>(bits[i])} - exact[i];
    const double rounded = ladder::Element<__nv_bfloat16>::to_float(
        ladder::Element<__nv_bfloat16>::from_double(exact[i]));
    squares += exact[i] * exact[i];
    error_squares += error * error;
    rounding_squares += (rounded - exact[i]) * (rounded - exact[i]);
    largest = std::max(largest, std::fabs(error));
    towards_zero -= exact[i] < 0 ? -error : error;
  }
  const auto count = static_cast<double>(exact.size());
  const double rms = std::sqrt(squares / count);
  return {std::sqrt(error_squares / count) / rms, largest / rms, towards_zero / count / rms,
          std::sqrt(error_squares / rounding_squares)};
}

std::vector<unsigned char> normal_e4m3(int rows, int k, uint64_t seed) {
  std::vector<unsigned char> bytes(static_cast<size_t>(rows) * static_cast<size_t>(k));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const float x = ladder::data_value(ladder::Data::normal, seed, i);
    bytes[i] = ladder::Element<ladder::e4m3>::from_float(x / SCALE).bits;
  }
  return bytes;
}

// Of the rows' numbers in [tile][row][col] order.
std::vector<double> exact_product(const std::vector<unsigned char>& a,
                                  const std::vector<unsigned char>& b, int k) {
  const auto values = [](const std::vector<unsigned char>& bytes) {
    std::vector<float> all;
    for (const unsigned char each : bytes) {
      all.push_back(ladder::Element<ladder::e4m3>::to_float({each}));
    }
    return all;
  };
  const std::vector<float> of_a = values(a), of_b = values(b);
  std::vector<double> exact;
  for (int tile = 0; tile < TILES; ++tile) {
    for (int row = 0; row < ROWS; ++row) {
      for (int col = 0; col < COLS; ++col) {
        const float* x = &of_a[static_cast<size_t>(row) * static_cast<size_t>(k)];
        const float* y = &of_b[static_cast<size_t>(tile * COLS + col) * static_cast<size_t>(k)];
        double sums[8] = {};  // every product is a multiple of 2^-18: these are exact
        for (int i = 0; i < k; i += 8) {
          for (int j = 0; j < 8; ++j) sums[j] += double{x[i + j]} * y[i + j];
        }
        double sum = 0;
        for (const double part : sums) sum += part;
        exact.push_back(sum);
      }
    }
  }
  return exact;
}

int write_errors(const char* path) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  std::FILE* out = std::fopen(path, "w");
  if (out == nullptr) throw std::runtime_error("cannot write " + std::string(path));
  std::fprintf(
      out, "{\"gpu\": \"%s\", \"data\": \"normal\", \"rows\": %d, \"cols\": %d, \"results\": [\n",
      properties.name, ROWS, TILES * COLS);
  const int ks[] = {128, 512, 1024, 2048, 4096, 8192, 16384};
  const char* separator = "";
  for (const int k : ks) {
    const auto a = normal_e4m3(ROWS, k, 1), b = normal_e4m3(TILES * COLS, k, 2);
    const std::vector<double> exact = exact_product(a, b, k);
    Buffer<unsigned char> on_gpu_a(a), on_gpu_b(b);
    const auto row = [&](int promoted, const Errors& errors) {
      std::fprintf(out,
                   "%s{\"k\": %d, \"promoted_every\": %d, \"rms\": %.4g, \"largest\": %.4g, "
                   "\"towards_zero\": %.4g, \"rms_of_bf16_rounding\": %.4g}",
                   separator, k, promoted, errors.rms, errors.largest, errors.bias,
                   errors.share_of_bf16);
      separator = ",\n";
    };
    row(0, errors_of<0>(on_gpu_a, on_gpu_b, k, exact));
    row(32, errors_of<1>(on_gpu_a, on_gpu_b, k, exact));
    row(128, errors_of<4>(on_gpu_a, on_gpu_b, k, exact));
    row(256, errors_of<8>(on_gpu_a, on_gpu_b, k, exact));
    row(512, errors_of<16>(on_gpu_a, on_gpu_b, k, exact));
  }
  std::fprintf(out, "\n]}\n");
  return std::fclose(out) == 0 ? 0 : 2;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "facts" && argc <= 4) return write_facts(argv[2], argc > 3 ? argv[3] : nullptr);
  if (mode == "errors" && argc == 3) return write_errors(argv[2]);
  std::fprintf(stderr, "usage: sums facts OUT.txt [DUMP] | sums errors OUT.json\n");
  return 2;
}

}  // namespace sums

int main(int argc, char** argv) {
  try {
    return sums::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sums: %s\n", error.what());
    return 3;
  }
}
