// C API of build/libladder.so: every rung of the ladder, callable from any language.
//
// D[m,n] = A[m,k] · B[n,k]^T, fp32 accumulation, row-major:
//
//   ladder_gemm_bf16()          bf16 in and out
//   ladder_gemm_typed()         other types and layouts
//   ladder_gemm_block_scaled()  operands of 8 bits, with scales
//   ladder_gemm_mixed()         weights of 8 or 4 bits
//   ladder_gemm_grouped()       groups of rows, each with a B of its own
//   ladder_gemm_fused()         a bias, another matrix, an activation
//
// Calls are asynchronous on `stream` (a cudaStream_t) of the current device, allocate nothing, may be
// captured into a CUDA graph, and are safe from several threads on several streams. None needs a
// workspace, but some shapes have a faster kernel that does: see ladder_set_workspace().
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Return codes.
enum {
  LADDER_OK = 0,
  LADDER_REFUSED = 1,  // the arguments break a rule; nothing was launched
  LADDER_CUDA_ERROR = 2,
  LADDER_NO_DEVICE = 3,  // no GPU of compute capability 9.0, or no driver
};

// Types of elements.
enum {
  LADDER_BF16 = 0,
  LADDER_FP16 = 1,
  LADDER_TF32 = 2,  // in memory fp32
  LADDER_E4M3 = 3,
  LADDER_S8 = 4,
  LADDER_FP32 = 5,
};

// Activations.
enum {
  LADDER_NONE = 0,
  LADDER_RELU = 1,
  LADDER_GELU = 2,  // x * Phi(x), the normal distribution
  LADDER_GELU_TANH = 3,
  LADDER_SILU = 4,
  LADDER_SWIGLU = 5,  // silu(gate) * up
};

// Number of rungs.
int ladder_stage_count(void);

// File stem of rung `stage` (1-based), e.g. "05_wgmma"; "" out of range.
const char* ladder_stage_name(int stage);

// Device pointers, 16-byte aligned; leading dimensions in elements, multiples of 8, lda and ldb >=
// k, ldd >= n; sizes from 0 to 2^30, where k = 0 makes D zeros, and, for rungs 1 to 6, N of at most
// 65535 tiles. A matrix spans at most 2^40 bytes. From its first byte to its last, between its rows
// too, D must share none with A, B and the stream's workspace. stage 0: of all kernels whose time a
// cost model predicts, the one with the least for this shape. A rung that solves another problem is
// refused. A call of any function here that is not refused forgets what cudaGetLastError() would say
// of the calls before it.
int ladder_gemm_bf16(int stage, int m, int n, int k, const void* a, long long lda, const void* b,
                     long long ldb, void* d, long long ldd, void* stream);

// D[m,n] = op(A)[m,k] · op(B)[k,n]: `type` of A and B is LADDER_BF16, LADDER_FP16 or LADDER_TF32,
// `type_d` LADDER_BF16, LADDER_FP16 or LADDER_FP32. mn_major_a 0: A is stored [m][lda], lda >= k; 1:
// [k][lda], lda >= m. mn_major_b 0: B is stored [n][ldb], ldb >= k; 1: [k][ldb], ldb >= n. D is stored
// [m][ldd]. tf32 is 0, 0: its operands are fp32 in memory, and are rounded to 11 bits of significand on
// their way. Leading dimensions in elements, their bytes multiples of 16; for the rest as above.
int ladder_gemm_typed(int stage, int type, int type_d, int mn_major_a, int mn_major_b, int m, int n,
                      int k, const void* a, long long lda, const void* b, long long ldb, void* d,
                      long long ldd, void* stream);

// D[m,n] = sum over blocks of 128 along k of scale_a · scale_b · (A · B^T): `type` of A, [m][lda], and B,
// [n][ldb], is LADDER_E4M3 or LADDER_S8; D, [m][ldd], is bf16. A block of A is 1 x 128, scale_a
// [ceil(k/128)][ld_scale_a], 16-byte aligned, ld_scale_a >= m and a multiple of 4; a block of B is 128 x
// 128, scale_b [ceil(n/128)][ld_scale_b], 4-byte aligned, ld_scale_b >= ceil(k/128). The last block along
// n and k may be a part of one. lda and ldb are multiples of 16, ldd of 8. Sums within a block are in
// fp32 as the tensor cores have it for e4m3, exact for s8; sums over blocks, and products of two scales,
// are in fp32: a product of scales beyond its range, or below 2^-126, is infinite or inexact.
int ladder_gemm_block_scaled(int stage, int type, int m, int n, int k, const void* a, long long lda,
                             const float* scale_a, long long ld_scale_a, const void* b,
                             long long ldb, const float* scale_b, long long ld_scale_b, void* d,
                             long long ldd, void* stream);

// bf16 X [rows][ldx] to q [rows][ldq] of `type`, LADDER_E4M3 or LADDER_S8, and the scales that
// ladder_gemm_block_scaled() takes. block_rows 1, as of A: scale [ceil(cols/128)][ld_scale], ld_scale >=
// rows (a multiple of 4 for that call); 128, as of B: scale [ceil(rows/128)][ld_scale], ld_scale >=
// ceil(cols/128). A block's scale is its largest finite magnitude / 448 (s8: / 127) in fp32, 1 if that is
// 0; q = x / scale in fp32, rounded to nearest, to even between two; what is larger than 448 (s8: 127),
// and infinity, becomes that. NaN stays NaN; s8 makes it 0. x and q 16-byte aligned, ldx a multiple of
// 8, ldq of 16; scale 4-byte aligned.
int ladder_quantize(int type, int block_rows, int rows, int cols, const void* x, long long ldx,
                    void* q, long long ldq, float* scale, long long ld_scale, void* stream);

// D[m,n] = A[m,k] · W[n,k]^T, A and D bf16 and row-major, W of `bits` 8 or 4 with one scale for each row
// and 128 of k: ladder_quantize_weights() makes such weights of bf16 ones, ladder_pack_weights() puts
// them into the order that ladder_gemm_mixed() takes, of ladder_packed_bytes(). The products are those
// of the weights as they are, q times scale: nothing but D is rounded to bf16.
//
// w: bf16 [n][ldw]; q: 8 bits [n][ldq], or 4 bits, two a byte, the lower half first, ldq in weights, a
// multiple of 16, of 4 bits of 32; scale: bf16 [ceil(k/128)][ld_scale], ld_scale >= n, a multiple of
// 8. scale = amax/127 or amax/7, amax over the group's finite weights, rounded to bf16, or 1 if that
// is 0; q = w / scale in fp32, to nearest even, from -127 to 127 or -7 to 7; NaN becomes 0. Any n,
// k >= 0; for the rest as above. ladder_packed_bytes() is 0, with a last error, for sizes that are
// refused.
size_t ladder_packed_bytes(int bits, int n, int k);
int ladder_quantize_weights(int bits, int n, int k, const void* w, long long ldw, void* q,
                            long long ldq, void* scale, long long ld_scale, void* stream);
int ladder_pack_weights(int bits, int n, int k, const void* q, long long ldq, void* packed,
                        void* stream);
int ladder_gemm_mixed(int stage, int bits, int m, int n, int k, const void* a, long long lda,
                      const void* packed, const void* scale, long long ld_scale, void* d,
                      long long ldd, void* stream);

// Many products in one launch, D[rows of g] = A[rows of g] · B[g][n,k]^T for each of `groups`
// groups, 0 to 512, whose rows only the device knows. `type`: LADDER_BF16, or LADDER_E4M3 with the
// scales of ladder_gemm_block_scaled(); D is bf16.
//
// masked 0, contiguous: A [m][lda], D [m][ldd]; group g has rows offsets_or_rows[g] to
// offsets_or_rows[g + 1] - 1, groups + 1 ints in device memory, of any value. masked 1: A
// [groups][m][lda], D [groups][m][ldd]; group g has the first offsets_or_rows[g] of its m rows,
// groups ints in device memory: a captured graph can be replayed with others. B [groups][n][ldb].
// scale_a is of all rows of A, ld_scale_a >= m (masked: groups * m); scale_b
// [groups][ceil(n/128)][ld_scale_b]. bf16 ignores scales.
//
// Rows of A that are no group's may be NaN or never written; such rows of D are not written.
// Offsets are bad that decrease, are negative or larger than m, rows that are negative or larger
// than m. Contiguous, the first bad group and all behind it are skipped; masked, bad groups are.
// error_flag, one int in device memory or null, is written by every call: 0, or 1 + the first bad
// group. It must be in nothing that the call reads. offsets_or_rows too are 4-byte aligned, and D
// overlaps neither. Any m, n, k >= 0, masked groups * m at most 2^30, all of B at most 2^40 bytes (k = 0:
// the groups' rows become zeros); for the rest as above.
int ladder_gemm_grouped(int stage, int type, int masked, int groups, int m, int n, int k,
                        const void* a, long long lda, const float* scale_a, long long ld_scale_a,
                        const void* b, long long ldb, const float* scale_b, long long ld_scale_b,
                        void* d, long long ldd, const int* offsets_or_rows, int* error_flag,
                        void* stream);

// D = f(alpha * A[m,k] · B[n,k]^T + beta * C + bias): A and B bf16, C, bias and D of `type_d`,
// LADDER_BF16 or LADDER_FP32, f by `activation`. C is [m][ldc], ldc >= n; beta 0: C is not read,
// and may be null. bias is [n], 16-byte aligned, or null: none. D is [m][ldd], and may be C itself,
// the same pointer and leading dimension; nothing else may overlap it. k = 0, or alpha 0, gives
// f(beta * C + bias): A and B are not read, and may be null. LADDER_SWIGLU takes the rows of B, and
// of bias, in turns of 8 of the gate, first, and 8 of up; D has n / 2 columns, ldd >= n / 2, n is a
// multiple of 16 and beta is 0. Bytes of leading dimensions are multiples of 16; for the rest as
// above. Of a sum that is not finite: docs/17_fused_epilogue.md.
int ladder_gemm_fused(int stage, int activation, int type_d, int m, int n, int k, float alpha,
                      const void* a, long long lda, const void* b, long long ldb, float beta,
                      const void* c, long long ldc, const void* bias, void* d, long long ldd,
                      void* stream);

// From now on the rungs' kernels occupy at most `sms` SMs of this process' devices and leave the
// others to other work; 0, as at the start: all. Rungs 1 to 6, which launch a CTA for every tile,
// cannot be limited and refuse while a limit is set, of any size; so do rungs with clusters of more
// CTAs than that. Stage 0 always works, without kernels that leave a sum to a second one. Under a limit
// no kernel starts before the one in front of it in its stream has ended. Quantizing, packing, and
// what k = 0 or alpha = 0 leaves to do, take no limit. Refuses a negative one.
int ladder_set_sm_limit(int sms);

// Bytes of a workspace with which every kernel can run on the current device; 0: none needs one, or
// ladder_last_error() says why that is not known.
size_t ladder_workspace_bytes(void);

// From now on calls on `stream` of the current device, from any thread, may use these bytes of device
// memory, 256-byte aligned: ladder_workspace_bytes() or more, of which the call makes the counters in
// front 0, on the stream. They are the caller's to allocate and to free, not before the calls have
// ended; nothing else may write to them until they are taken away: p null, bytes 0, which is to be
// done before the stream is destroyed. Calls without a workspace run kernels that need none. A
// captured graph keeps the workspace of its stream, and must not run beside other work that uses it.
// While the stream is being captured, and for cudaStreamPerThread, one cannot be set.
int ladder_set_workspace(void* p, size_t bytes, void* stream);

// Which kernel this thread's latest ladder_gemm_... call launched: the rung's stem and the
// variant's name, such as "11_autotuned/256x192_1x2"; "" if it launched none. Valid until this
// thread's next call.
const char* ladder_last_kernel(void);

// What went wrong in this thread's latest call, every violation of a refused one; "" if it
// succeeded. Valid until this thread's next call.
const char* ladder_last_error(void);

#ifdef __cplusplus
}
#endif
