// Gate and up in one product: their rows in turns of 8, so that who has eight columns of the gate
// has the same eight of up beside them. First the rows are put in turns, then they are quantized: a
// scale of e4m3 is of 128 rows in the order in which they are multiplied. And the activations are
// quantized behind silu(gate) * up, not before.
#include <cuda_runtime_api.h>
#include <ladder.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 24, K = 256, HALF = 256, N = 2 * HALF, TURN = 8, BLOCK = 128, BLOCKS = K / BLOCK };

typedef unsigned short Bf16;  // its bits

static Bf16 x[M * K], weights[N * K], d[M * N];  // weights: all of the gate, then all of up
static double right[M * HALF];

static void check(int failed, const char* what) {
  if (!failed) return;
  const char* refused = ladder_last_error();
  fprintf(stderr, "%s: %s\n", what, refused[0] ? refused : cudaGetErrorString(cudaGetLastError()));
  exit(1);
}

static float to_float(Bf16 bits) {
  const unsigned wide = (unsigned)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static void* device(size_t bytes, const void* from) {
  void* there = NULL;
  check(cudaMalloc(&there, bytes), "cudaMalloc");
  if (from) check(cudaMemcpy(there, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return there;
}

// Rows of gate and up, one below the other, into turns of 8: each half is one copy.
static void in_turns(void* to, const void* from, size_t row_bytes) {
  for (int half = 0; half < 2; ++half) {
    check(cudaMemcpy2D((char*)to + half * TURN * row_bytes, 2 * TURN * row_bytes,
                       (const char*)from + half * HALF * row_bytes, TURN * row_bytes,
                       TURN * row_bytes, HALF / TURN, cudaMemcpyDeviceToDevice),
          "cudaMemcpy2D");
  }
}

static double swiglu(double gate, double up) {
  return gate / (1 + exp(-gate)) * up;
}

// Of silu(gate) * up against double precision: as D has it [M][HALF], or from products [M][N] whose
// columns are in turns of 8.
static double error_percent(const void* d_gpu, int activated) {
  double wrong = 0, all = 0;
  check(cudaMemcpy(d, d_gpu, sizeof d, cudaMemcpyDeviceToHost), "the product");
  for (int i = 0; i < M * HALF; ++i) {
    const int col = i % HALF, at = i / HALF * N + col / TURN * 2 * TURN + col % TURN;
    const double found =
        activated ? to_float(d[i]) : swiglu(to_float(d[at]), to_float(d[at + TURN]));
    const double by = found - right[i];
    wrong += by * by;
    all += right[i] * right[i];
  }
  return 100 * sqrt(wrong / all);
}

static void* e4m3_of(const void* from, int block_rows, int rows, float** scale) {
  const int scales = block_rows == 1 ? BLOCKS * rows : rows / BLOCK * BLOCKS;
  *scale = device(scales * sizeof **scale, NULL);
  void* q = device((size_t)rows * K, NULL);
  check(ladder_quantize(LADDER_E4M3, block_rows, rows, K, from, K, q, K, *scale,
                        block_rows == 1 ? rows : BLOCKS, NULL),
        "ladder_quantize");
  return q;
}

int main(int argc, char** argv) {
  if (argc > 1) return fprintf(stderr, "swiglu takes no arguments, such as %s.\n", argv[1]), 2;
  for (int i = 0; i < M * K; ++i) x[i] = (Bf16)(0x3e80 + rand() % 256 + rand() % 2 * 0x8000);
  for (int i = 0; i < N * K; ++i) {  // up is 16 times smaller, so that the scales matter
    weights[i] = (Bf16)((i < HALF * K ? 0x3d80 : 0x3b80) + rand() % 256 + rand() % 2 * 0x8000);
  }
  for (int i = 0; i < M * HALF; ++i) {
    double gate = 0, up = 0;
    for (int k = 0; k < K; ++k) {
      gate += to_float(x[i / HALF * K + k]) * (double)to_float(weights[i % HALF * K + k]);
      up += to_float(x[i / HALF * K + k]) * (double)to_float(weights[(HALF + i % HALF) * K + k]);
    }
    right[i] = swiglu(gate, up);
  }
  void *a = device(sizeof x, x), *w = device(sizeof weights, weights),
       *d_gpu = device(sizeof d, NULL);

  // bf16: the rows in turns, and that is all.
  void* turned = device(sizeof weights, NULL);
  in_turns(turned, w, K * sizeof(Bf16));
  check(ladder_gemm_bf16(0, M, N, K, a, K, turned, K, d_gpu, N, NULL), "ladder_gemm_bf16");
  const double bf16 = error_percent(d_gpu, 0);
  printf("bf16                               %6.2f %% error\n", bf16);

  // The activation in the same kernel: D has half the columns, and no gate goes to memory.
  check(ladder_gemm_fused(0, LADDER_SWIGLU, LADDER_BF16, M, N, K, 1, a, K, turned, K, 0, NULL, 0,
                          NULL, d_gpu, HALF, NULL),
        "ladder_gemm_fused");
  const double fused = error_percent(d_gpu, 1);
  printf("bf16, fused                        %6.2f %% error\n", fused);

  // e4m3: in turns first, then quantized.
  float *scale_a, *scale_w, *scale_halves;
  void* q_a = e4m3_of(a, 1, M, &scale_a);
  void* q_w = e4m3_of(turned, BLOCK, N, &scale_w);
  check(ladder_gemm_block_scaled(0, LADDER_E4M3, M, N, K, q_a, K, scale_a, M, q_w, K, scale_w,
                                 BLOCKS, d_gpu, N, NULL),
        "ladder_gemm_block_scaled");
  const double in_order = error_percent(d_gpu, 0);
  printf("e4m3, in turns, then quantized     %6.2f %% error\n", in_order);

  // The other way round: rows of another block get its scale.
  void *q_halves = e4m3_of(w, BLOCK, N, &scale_halves), *q_turned = device((size_t)N * K, NULL);
  in_turns(q_turned, q_halves, K);
  check(ladder_gemm_block_scaled(0, LADDER_E4M3, M, N, K, q_a, K, scale_a, M, q_turned, K,
                                 scale_halves, BLOCKS, d_gpu, N, NULL),
        "ladder_gemm_block_scaled");
  const double too_late = error_percent(d_gpu, 0);
  printf("e4m3, quantized, then in turns     %6.2f %% error\n", too_late);

  // 4 bits: a row has scales of its own. In turns, quantized, then packed.
  void *q4 = device((size_t)N * K / 2, NULL), *scale4 = device(BLOCKS * N * sizeof(Bf16), NULL);
  void* packed = device(ladder_packed_bytes(4, N, K), NULL);
  check(ladder_quantize_weights(4, N, K, turned, K, q4, K, scale4, N, NULL),
        "ladder_quantize_weights");
  check(ladder_pack_weights(4, N, K, q4, K, packed, NULL), "ladder_pack_weights");
  check(ladder_gemm_mixed(0, 4, M, N, K, a, K, packed, scale4, N, d_gpu, N, NULL),
        "ladder_gemm_mixed");
  const double int4 = error_percent(d_gpu, 0);
  printf("4 bits, in turns, then quantized   %6.2f %% error\n", int4);
  return bf16 < 1 && fused < 1 && in_order < 8 && too_late > 50 && int4 < 25 ? 0 : 1;
}
