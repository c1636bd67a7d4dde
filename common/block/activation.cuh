// What becomes of a sum before it is stored: functors that a kernel is instantiated with.
// Introduced by stages/17_fused_epilogue.cu
#pragma once

#include <concepts>

#include "common/ptx/special.cuh"
#include "common/tile/activation.h"

namespace block {

// Four results of a thread, neighbours in its fragment: y[j] of z[0][j], and of z[1][j] if a result has
// two INPUTS, as that of a gate has.
template <class F>
concept Activation =
    (F::INPUTS == 1 || F::INPUTS == 2) && requires(float (&y)[4], const float (&z)[F::INPUTS][4]) {
      { F::apply(y, z) } -> std::same_as<void>;
    };

struct Identity {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] = z[0][j];
  }
};

struct Relu {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] = ptx::max_NaN_f32(z[0][j], 0);
  }
};

// x / (1 + 2^-w(x)) for a w that is odd and grows with x, w_of(|x|) being given. Of e = 2^-w(|x|), at
// most 1, it is max(x, 0) - |x| e / (1 + e): for a negative x nothing is left that could cancel. Four
// numbers from 1 to 2 have a product that cannot overflow, so that one rcp is enough for them all;
// min() keeps a NaN from the other three.
template <class WOf>
__device__ void times_sigmoid(float (&y)[4], const float (&x)[4], const WOf& w_of) {
  float e[4], d[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    e[j] = ptx::ex2_approx_ftz_f32(-w_of(fabsf(x[j])));
    d[j] = 1 + fminf(e[j], 1);
  }
  const float d01 = d[0] * d[1], d23 = d[2] * d[3], all = ptx::rcp_approx_ftz_f32(d01 * d23);
  const float of01 = all * d23, of23 = all * d01;  // 1 / d01 and 1 / d23
  const float inverse[4] = {of01 * d[1], of01 * d[0], of23 * d[3], of23 * d[2]};
#pragma unroll
  for (int j = 0; j < 4; ++j) y[j] = fmaxf(x[j], 0) - fabsf(x[j]) * e[j] * inverse[j];
}

struct Silu {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
    times_sigmoid(y, z[0], [](float t) { return tile::LOG2_E * t; });
  }
};

struct GeluTanh {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
    times_sigmoid(y, z[0],
                  [](float t) { return t * (tile::GELU_LINEAR + tile::GELU_CUBIC * t * t); });
  }
};

struct Gelu {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float t = fabsf(z[0][j]);
      y[j] = fmaxf(z[0][j], 0) - t * ptx::ex2_approx_ftz_f32(tile::log2_phi(t));
    }
  }
};

struct SwiGlu {
  static constexpr int INPUTS = 2;  // gate and up
  static __device__ void apply(float (&y)[4], const float (&z)[2][4]) {
    times_sigmoid(y, z[0], [](float t) { return tile::LOG2_E * t; });
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] *= z[1][j];
  }
};

}  // namespace block
