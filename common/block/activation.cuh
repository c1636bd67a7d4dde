// What becomes of a sum before it is stored: functors that a kernel is instantiated with.
// Introduced by stages/17_fused_epilogue.cu
#pragma once

#include "common/ptx/fma.cuh"
#include "common/ptx/special.cuh"
#include "common/tile/activation.h"

namespace block {

// Four results of a thread, neighbours in its fragment: y[j] of z[0][j], and of z[1][j] if a result
// has two INPUTS, as that of a gate has.
template <class F>
concept Activation = requires(float (&y)[4], const float (&z)[F::INPUTS][4]) {
  requires F::INPUTS == 1 || F::INPUTS == 2;
  F::apply(y, z);
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

// y = x / (1 + 2^-w(x)). One rcp is enough for four: no factor of what it takes is above 2^31, so
// that their product is finite. min() sees to that, and keeps a NaN from the other three. It makes
// y = 2^-31 x where w is below -31 and the true y is nearer to 0: by far less than fp32 can tell of a
// sum as large as x.
template <class WOf>
__device__ void times_sigmoid(float (&y)[4], const float (&x)[4], const WOf& w_of) {
  float d[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) d[j] = 1 + ptx::ex2_approx_ftz_f32(fminf(-w_of(x[j]), 31));
  const float d01 = d[0] * d[1], d23 = d[2] * d[3], all = ptx::rcp_approx_ftz_f32(d01 * d23);
  const float of01 = all * d23, of23 = all * d01;  // 1 / d01 and 1 / d23
  const float inverse[4] = {of01 * d[1], of01 * d[0], of23 * d[3], of23 * d[2]};
#pragma unroll
  for (int j = 0; j < 4; ++j) y[j] = x[j] * inverse[j];
}

struct Silu {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
    times_sigmoid(y, z[0], [](float x) { return tile::LOG2_E * x; });
  }
};

struct GeluTanh {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
    times_sigmoid(y, z[0], [](float x) {
      return x * ptx::fma_rn_f32(tile::GELU_CUBIC, x * x, tile::GELU_LINEAR);
    });
  }
};

// The polynomial from the power POWER on, divided by t^POWER.
template <int POWER = 0>
__device__ float log2_phi(float t) {
  constexpr float FACTOR = tile::LOG2_PHI[POWER];
  if constexpr (POWER == tile::LOG2_PHI_DEGREE) return FACTOR;
  if constexpr (POWER < tile::LOG2_PHI_DEGREE) {
    return ptx::fma_rn_f32(log2_phi<POWER + 1>(t), t, FACTOR);
  }
}

struct Gelu {
  static constexpr int INPUTS = 1;
  static __device__ void apply(float (&y)[4], const float (&z)[1][4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float t = fabsf(z[0][j]);
      y[j] = ptx::fma_rn_f32(-t, ptx::ex2_approx_ftz_f32(log2_phi(t)), fmaxf(z[0][j], 0));
    }
  }
};

struct SwiGlu {
  static constexpr int INPUTS = 2;  // gate and up
  static __device__ void apply(float (&y)[4], const float (&z)[2][4]) {
    times_sigmoid(y, z[0], [](float x) { return tile::LOG2_E * x; });
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] *= z[1][j];
  }
};

}  // namespace block
