// Calls that are not known before they are made: through a table, of a virtual function, of a
// function by itself. Prints "ok" if all give what they give on the host.
#include <cuda_runtime.h>

#include <cstdio>

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
}

int main() {
  const Node nodes[5] = {{1, 1, 2}, {2, 3, -1}, {3, -1, 4}, {4, -1, -1}, {5, -1, -1}};
  float* numbers = nullptr;
  int* results = nullptr;
  Node* tree = nullptr;
  cudaMallocManaged(&numbers, LANES * sizeof(float));
  cudaMallocManaged(&results, 3 * LANES * sizeof(int));
  cudaMallocManaged(&tree, sizeof nodes);
  for (int i = 0; i < 5; ++i) tree[i] = nodes[i];
  call<<<1, LANES>>>(numbers, results, tree);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  int wrong = 0;
  for (int i = 0; i < LANES; ++i) {
    const float x = static_cast<float>(i);
    wrong += numbers[i] != (i % 2 == 0 ? 1.5f + x : 1.5f * x);
    wrong += results[i] != (i % 3 == 0 ? i * i + 2 : i * 3 * 2);
    wrong += results[LANES + i] != sum(nodes, i % 5);
    wrong += results[2 * LANES + i] != ackermann(2, i % 4);
  }
  std::printf(wrong == 0 ? "ok\n" : "%d wrong\n", wrong);
  return wrong != 0;
}
