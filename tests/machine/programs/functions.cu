// Calls that are not known before they are made: through a table, of a virtual function, of a
// function by itself; memory and objects that a kernel makes; clocks. Prints "ok" if all give what
// they give on the host.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

using Function = float (*)(float, int);
__device__ __noinline__ float add(float x, int k) {
  return x + static_cast<float>(k);
}
__device__ __noinline__ float multiply(float x, int k) {
  return x * static_cast<float>(k);
}
__device__ Function table[2] = {add, multiply};

struct Shape {
  __device__ virtual int area(int scale) const = 0;
  int width = 0;
};
struct Square : Shape {
  __device__ int area(int scale) const override { return width * width + scale; }
};
struct Rectangle : Shape {
  int height = 0;
  __device__ int area(int scale) const override { return width * height * scale; }
};

struct Node {
  int value, left, right;
};
__host__ __device__ __noinline__ int sum(const Node* tree, int at) {
  return at < 0 ? 0 : tree[at].value + sum(tree, tree[at].left) + 2 * sum(tree, tree[at].right);
}
__host__ __device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
// Each call has an array of its own, and looks at its caller's.
__host__ __device__ __noinline__ int queens(int n, int row, const int* above) {
  if (row == n) return 1;
  int columns[8] = {}, count = 0;
  for (int i = 0; i < row; ++i) columns[i] = above[i];
  for (int& x = columns[row]; x < n; ++x) {
    bool is_free = true;
    for (int i = 0; i < row; ++i) {
      is_free &= columns[i] != x && columns[i] - x != row - i && x - columns[i] != row - i;
    }
    if (is_free) count += queens(n, row + 1, columns);
  }
  return count;
}

constexpr int LANES = 32;

__global__ void call(float* numbers, int* results, const Node* tree) {
  const int lane = static_cast<int>(threadIdx.x);
  numbers[lane] = table[lane & 1](1.5f, lane);
  Square square;
  Rectangle rectangle;
  square.width = rectangle.width = lane;
  rectangle.height = 3;
  const Shape* const shape = lane % 3 == 0 ? static_cast<Shape*>(&square) : &rectangle;
  results[lane] = shape->area(2);
  results[LANES + lane] = sum(tree, lane % 5);
  results[2 * LANES + lane] = ackermann(2, lane % 4);
  results[3 * LANES + lane] = queens(3 + lane % 4, 0, nullptr);
}

// Blocks that outlive their kernel, and objects that do not.
__global__ void make(int** blocks, int* areas) {
  const int lane = static_cast<int>(threadIdx.x);
  blocks[lane] = static_cast<int*>(malloc(3 * sizeof(int)));
  for (int i = 0; i < 3; ++i) blocks[lane][i] = i * lane;
  Shape* const shape = lane % 2 == 0 ? static_cast<Shape*>(new Square) : new Rectangle;
  shape->width = lane;
  if (lane % 2 != 0) static_cast<Rectangle*>(shape)->height = 4;
  areas[lane] = shape->area(2);
  delete shape;
}
__global__ void take(int** blocks, int* sums) {
  int* const block = blocks[threadIdx.x];
  sums[threadIdx.x] = block[0] + block[1] + block[2];
  free(block);
}
__global__ void free_again(int** blocks) {
  free(blocks[3]);
}
__global__ void read_clocks(long long* passed) {
  const long long before = clock64();
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  *passed = now == 0 ? 0 : clock64() - before;
}

int check_heap(int* results) {
  int** blocks = nullptr;
  long long* passed = nullptr;
  cudaMallocManaged(&blocks, LANES * sizeof(int*));
  cudaMallocManaged(&passed, sizeof(long long));
  make<<<1, LANES>>>(blocks, results);
  take<<<1, LANES>>>(blocks, results + LANES);
  read_clocks<<<1, 1>>>(passed);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  int wrong = *passed <= 0;
  for (int i = 0; i < LANES; ++i) {
    wrong += results[i] != (i % 2 == 0 ? i * i + 2 : i * 4 * 2);
    wrong += results[LANES + i] != 3 * i;
  }
  if (std::getenv("FREE_AGAIN") != nullptr) free_again<<<1, 1>>>(blocks);
  return wrong + (cudaDeviceSynchronize() != cudaSuccess);
}

// What a thread, a CTA and all threads have as text; and a format that ends too soon.
__constant__ char of_all[] = "all";

__global__ void say() {
  __shared__ char of_cta[4];
  char of_thread[8];
  for (int i = 0; i < 3; ++i) of_thread[i] = static_cast<char>('a' + (threadIdx.x + i) % 26);
  of_thread[3] = '\0';
  if (threadIdx.x < 4) of_cta[threadIdx.x] = "cta"[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 1) {
    const char* const format = "%s %s %s %td %Lf %";  // which nvcc would warn of
    printf(format, of_thread, of_cta, of_all, static_cast<ptrdiff_t>(-1), 0.5);
    printf("\n");
  }
}

int main() {
  const Node nodes[5] = {{1, 1, 2}, {2, 3, -1}, {3, -1, 4}, {4, -1, -1}, {5, -1, -1}};
  float* numbers = nullptr;
  int* results = nullptr;
  Node* tree = nullptr;
  cudaMallocManaged(&numbers, LANES * sizeof(float));
  cudaMallocManaged(&results, 4 * LANES * sizeof(int));
  cudaMallocManaged(&tree, sizeof nodes);
  for (int i = 0; i < 5; ++i) tree[i] = nodes[i];
  if (std::getenv("SAY") != nullptr) say<<<1, LANES>>>();
  call<<<1, LANES>>>(numbers, results, tree);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  int wrong = 0;
  for (int i = 0; i < LANES; ++i) {
    const float x = static_cast<float>(i);
    wrong += numbers[i] != (i % 2 == 0 ? 1.5f + x : 1.5f * x);
    wrong += results[i] != (i % 3 == 0 ? i * i + 2 : i * 3 * 2);
    wrong += results[LANES + i] != sum(nodes, i % 5);
    wrong += results[2 * LANES + i] != ackermann(2, i % 4);
    wrong += results[3 * LANES + i] != queens(3 + i % 4, 0, nullptr);
  }
  wrong += check_heap(results);
  std::printf(wrong == 0 ? "ok\n" : "%d wrong\n", wrong);
  return wrong != 0;
}
