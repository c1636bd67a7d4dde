// What is right of a fused product, for the host and for a GPU.
#pragma once

#include <cmath>

#include "common/host/fused.h"

namespace ladder {

// What one element of D is made of: of a row of A by one of B the sum and the sum of magnitudes,
// and what is added to it, 0 where there is none.
struct FusedSum {
  double sum = 0, magnitude = 0, c = 0, bias = 0;
};

// A number, and what it may be off by.
struct Bounded {
  double value, error;
};

constexpr double SQRT_HALF = 0.70710678118654752, TANH_SCALE = 0.79788456080286536;  // sqrt(2/pi)

LADDER_HOST_DEVICE inline double activated(int activation, double x) {
  if (activation == LADDER_RELU) return x > 0 ? x : x == x ? 0 : x;
  if (activation == LADDER_GELU) return 0.5 * x * erfc(-SQRT_HALF * x);
  if (activation == LADDER_GELU_TANH) {
    return x / (1 + exp(-2 * TANH_SCALE * (x + 0.044715 * x * x * x)));
  }
  if (activation == LADDER_SILU || activation == LADDER_SWIGLU) return x / (1 + exp(-x));
  return x;
}

// How much faster than its argument an activation may change: the greatest derivative.
LADDER_HOST_DEVICE inline double steepest(int activation) {
  if (activation == LADDER_GELU || activation == LADDER_GELU_TANH) return 1.13;
  return activation == LADDER_SILU || activation == LADDER_SWIGLU ? 1.1 : 1;
}

// An activation's own share: 2^-15 of its value, and 2^-30 of its argument
// (docs/measuring.md derives both).
LADDER_HOST_DEVICE inline Bounded activated(int activation, Bounded x) {
  const double value = activated(activation, x.value);
  const double own = is_exact(activation) ? 0 : fabs(value) * 0x1p-15 + fabs(x.value) * 0x1p-30;
  return {value, steepest(activation) * x.error + own};
}

// alpha * sum + beta * c + bias; `unit`: what fp32 sums lose of magnitudes, as tolerance() has it.
// rounded: 0, or what is lost as well of the result, where it is stored before it is used.
LADDER_HOST_DEVICE inline Bounded argument(const FusedArgs& args, const FusedSum& of, double unit,
                                           double rounded) {
  const double alpha = static_cast<double>(args.alpha), beta = static_cast<double>(args.beta);
  const double added = args.reads_c() ? beta * of.c : 0;
  const double value = alpha * of.sum + added + of.bias;
  const double magnitude = fabs(alpha) * of.magnitude + fabs(added) + fabs(of.bias);
  return {value, unit * magnitude + rounded * fabs(value)};
}

// An element of D; up: of a gate's other half.
LADDER_HOST_DEVICE inline Bounded finished(const FusedArgs& args, const FusedSum& of,
                                           const FusedSum& up, double unit, double rounded) {
  const Bounded f = activated(args.activation, argument(args, of, unit, rounded));
  if (!args.gated()) return f;
  const Bounded u = argument(args, up, unit, rounded);
  return {f.value * u.value, fabs(u.value) * f.error + fabs(f.value) * u.error + f.error * u.error};
}

// Column of A·B^T that the gate of column `col` of D is; its up is 8 further.
LADDER_HOST_DEVICE inline long long gate_column(long long col) {
  return col / 8 * 16 + col % 8;
}

}  // namespace ladder
