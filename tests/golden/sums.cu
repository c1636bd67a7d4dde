// What the tensor cores keep of a sum.
//
//   sums facts OUT.txt [DUMP]    probes of single wgmma and short chains: a line each, with a hash of D;
//                                DUMP: D itself, 512 words a probe
//   sums errors OUT.json         the error of e4m3 sums over long K, with and without promotion
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "common/host/data.h"
#include "common/host/element.h"
#include "tests/golden/sums.cuh"

namespace sums {

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
  std::fprintf(out, "{\"gpu\": \"%s\", \"data\": \"normal\", \"m\": %d, \"n\": %d, \"rows\": [\n",
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
    if (k >= 512) row(512, errors_of<16>(on_gpu_a, on_gpu_b, k, exact));
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
