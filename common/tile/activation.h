// What activations compute with: constants, and a polynomial. Plain arithmetic, no CUDA.
#pragma once

namespace tile {

// e^-x = 2^(-LOG2_E x).
constexpr float LOG2_E = 1.44269504f;

// gelu_tanh(x) = x / (1 + e^-w), w = 2 sqrt(2/pi) (x + 0.044715 x^3). In powers of two:
// w log2(e) = x (GELU_LINEAR + GELU_CUBIC x^2).
constexpr float GELU_LINEAR = 2.30220819f, GELU_CUBIC = 0.102943240f;

// log2(Phi(-t)), t >= 0, Phi being the normal distribution: what gelu(x) = max(x, 0) - |x|
// Phi(-|x|) needs, on the side where nothing cancels. The polynomial of degree 9 with the least
// greatest error on [0, 13.3], where Phi goes from 1/2 down to 2^-132, errors being weighed by 1 /
// (1 + (t/5)^4): found by Remez' algorithm, then rounded to fp32. Phi comes out right to 2^-15.8 of
// itself up to t = 5.5, to 2^-11.9 up to 13.1 (tests/host/fused_test.cpp); ex2.approx.ftz makes it 0
// from 12.95 on. Beyond, the polynomial falls faster still.
constexpr int LOG2_PHI_DEGREE = 9;
constexpr float LOG2_PHI[LOG2_PHI_DEGREE + 1] = {
    -0x1.fffecep-1f,  -0x1.26bf42p+0f, -0x1.d50fc2p-2f,  -0x1.be9b7cp-5f, 0x1.2330aap-7f,
    -0x1.18386ap-10f, 0x1.78795cp-14f, -0x1.49a4cap-18f, 0x1.4f2226p-23f, -0x1.2a5446p-29f};

}  // namespace tile
