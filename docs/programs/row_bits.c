// Do the bits of a row of D depend on how many other rows there are, or on where among them it is?
//
//   row_bits [N K [STAGE...]]    stages 0 to 12; default 512 2048, 0 and 9
//
// Every call multiplies the same row by the same weights, with other rows around it. Results with
// the same letter have the same bits; beside the letters stands how many columns differ from the
// first result. That is done for two kinds of weights: any, and such that the second half of the
// sum nearly cancels the first, so that what was rounded on the way is a larger part of the result.
#include <cuda_runtime_api.h>
#include <ladder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096, MOST_STAGES = 16, MOST_RESULTS = 256 };

typedef unsigned short Bf16;  // its bits

static void check(int failed, const char* what) {
  if (!failed) return;
  const char* refused = ladder_last_error();
  fprintf(stderr, "%s: %s\n", what, refused[0] ? refused : cudaGetErrorString(cudaGetLastError()));
  exit(failed == LADDER_REFUSED ? 2 : 1);
}

// A random matrix [rows][k] of device memory. Its elements have four binary exponents and both
// signs. If halves cancel, the second half of a row is minus the first, but for the last bit of the
// significand.
static void* matrix(size_t rows, size_t k, int halves_cancel) {
  static unsigned long long state = 1;
  const size_t bytes = rows * k * sizeof(Bf16);
  Bf16* values = malloc(bytes);
  void* there = NULL;
  check(values == NULL, "malloc");
  for (size_t i = 0; i < rows * k; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's generator, MMIX
    values[i] = (Bf16)(0x3e00 + (state >> 40) % 0x200 + (state >> 63) * 0x8000);
    if (halves_cancel && i % k >= k / 2) values[i] = values[i - k / 2] ^ 0x8001;
  }
  check(cudaMalloc(&there, bytes), "cudaMalloc");
  check(cudaMemcpy(there, values, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  free(values);
  return there;
}

// The results so far of one kind of weights.
struct Results {
  Bf16* row[MOST_RESULTS];
  int count;
};

// The letter of these bits, a new one for new bits.
static char letter_of(struct Results* results, const Bf16* row, int n) {
  const size_t bytes = (size_t)n * sizeof *row;
  int i = 0;
  while (i < results->count && memcmp(results->row[i], row, bytes) != 0) ++i;
  if (i == results->count) {
    check(i == MOST_RESULTS, "too many different results");
    results->row[i] = malloc(bytes);
    check(results->row[i] == NULL, "malloc");
    memcpy(results->row[i], row, bytes);
    ++results->count;
  }
  return (char)('A' + i);
}

static int differing(const Bf16* x, const Bf16* y, int n) {
  int count = 0;
  for (int i = 0; i < n; ++i) count += x[i] != y[i];
  return count;
}

// -1 if the text is no number from 0 to 2^30.
static int number(const char* text) {
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  return end == text || *end != 0 || value < 0 || value > 1 << 30 ? -1 : (int)value;
}

int main(int argc, char** argv) {
  const int n = argc > 2 ? number(argv[1]) : 512, k = argc > 2 ? number(argv[2]) : 2048;
  int stages[MOST_STAGES] = {0, 9}, stage_count = argc > 3 ? argc - 3 : 2;
  int usable =
      argc != 2 && stage_count <= MOST_STAGES && n >= 8 && n % 8 == 0 && k >= 8 && k % 8 == 0;
  for (int i = 3; usable && i < argc; ++i) {
    stages[i - 3] = number(argv[i]);
    usable = stages[i - 3] >= 0;
  }
  if (!usable) {
    fprintf(stderr,
            "usage: row_bits [N K [STAGE...]], N and K multiples of 8, such as 512 2048 0 9\n");
    return 2;
  }

  const size_t row_a = (size_t)k * sizeof(Bf16), row_d = (size_t)n * sizeof(Bf16);  // bytes
  char *a = matrix(MOST_ROWS, k, 0), *x = matrix(2, k / 2, 0), *d = matrix(MOST_ROWS, n, 0);
  check(cudaMemcpy(x + row_a / 2, x, row_a / 2, cudaMemcpyDeviceToDevice),
        "cudaMemcpy");  // for w[1]
  void* w[2] = {matrix(n, k, 0), matrix(n, k, 1)};
  Bf16* row = malloc(row_d);
  check(row == NULL, "malloc");
  const size_t bytes = ladder_workspace_bytes();
  void* workspace = NULL;
  if (bytes > 0) {
    check(cudaMalloc(&workspace, bytes), "cudaMalloc");
    check(ladder_set_workspace(workspace, bytes, NULL), "ladder_set_workspace");
  }

  static struct Results results[2];
  printf("One row by %d x %d weights, as first, middle and last of M rows.\n", n, k);
  for (int s = 0; s < stage_count; ++s) {
    printf("\n%-20s %-16s %-16s kernel\n", stages[s] ? ladder_stage_name(stages[s]) : "stage 0",
           "any weights", "nearly cancelling");
    const int rows[] = {1, 8, 64, 128, MOST_ROWS};
    for (int i = 0; i < 5; ++i) {
      const int m = rows[i], places[] = {0, m / 2, m - 1};
      for (int p = 0; p < 3; ++p) {
        check(cudaMemcpy(a + places[p] * row_a, x, row_a, cudaMemcpyDeviceToDevice), "cudaMemcpy");
      }
      printf("  M = %-15d", m);
      for (int kind = 0; kind < 2; ++kind) {
        int most = 0;
        check(ladder_gemm_bf16(stages[s], m, n, k, a, k, w[kind], k, d, n, NULL), "the call");
        for (int p = 0; p < 3; ++p) {
          check(cudaMemcpy(row, d + places[p] * row_d, row_d, cudaMemcpyDeviceToHost),
                "the product");
          printf("%c", letter_of(&results[kind], row, n));
          const int count = differing(row, results[kind].row[0], n);
          if (count > most) most = count;
        }
        printf(" %5d        ", most);
      }
      printf(" %s\n", ladder_last_kernel());
    }
  }
  return 0;
}
