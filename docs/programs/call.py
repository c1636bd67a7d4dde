"""One product from Python: ctypes, libladder.so and the CUDA runtime that it is linked with."""

import array
import ctypes
import random
import sys

LIBRARY = sys.argv[1] if len(sys.argv) > 1 else "build/libladder.so"
M, N, K = 40, 72, 104  # leading dimensions are multiples of 8

# A handle also finds what the library itself is linked with, so that there is one CUDA runtime.
try:
    ladder = ctypes.CDLL(LIBRARY)
except OSError as error:
    sys.exit(f"The library cannot be loaded ({error}); make lib builds build/libladder.so.")
pointer, int_, long_long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
ladder.ladder_gemm_bf16.argtypes = [int_] * 4 + [pointer, long_long] * 3 + [pointer]
ladder.ladder_last_error.restype = ctypes.c_char_p
ladder.ladder_last_kernel.restype = ctypes.c_char_p
ladder.cudaMalloc.argtypes = [ctypes.POINTER(pointer), ctypes.c_size_t]
ladder.cudaMemcpy.argtypes = [pointer, pointer, ctypes.c_size_t, int_]
ladder.cudaGetErrorString.restype = ctypes.c_char_p
TO_DEVICE, TO_HOST = 1, 2


def cuda(status: int) -> None:
    if status != 0:
        sys.exit(f"CUDA: {ladder.cudaGetErrorString(status).decode()}")


def to_bf16(x: float) -> int:
    """The upper half of the float: rounded towards zero."""
    return array.array("I", array.array("f", [x]).tobytes())[0] >> 16


def to_float(bits: int) -> float:
    return array.array("f", array.array("I", [bits << 16]).tobytes())[0]


def on_device(values: array.array) -> ctypes.c_void_p:
    size, there = len(values) * values.itemsize, pointer()
    cuda(ladder.cudaMalloc(ctypes.byref(there), size))
    cuda(ladder.cudaMemcpy(there, values.buffer_info()[0], size, TO_DEVICE))
    return there


def main() -> None:
    a = array.array("H", (to_bf16(random.gauss(0, 1)) for _ in range(M * K)))
    b = array.array("H", (to_bf16(random.gauss(0, 1)) for _ in range(N * K)))
    d = array.array("H", bytes(2 * M * N))
    a_gpu, b_gpu, d_gpu = map(on_device, (a, b, d))
    if ladder.ladder_gemm_bf16(0, M, N, K, a_gpu, K, b_gpu, K, d_gpu, N, None) != 0:
        sys.exit(ladder.ladder_last_error().decode())
    kernel = ladder.ladder_last_kernel().decode()
    cuda(ladder.cudaMemcpy(d.buffer_info()[0], d_gpu, 2 * M * N, TO_HOST))  # waits

    x, y = list(map(to_float, a)), list(map(to_float, b))
    for i in range(M):
        for j in range(N):
            products = [x[i * K + k] * y[j * K + k] for k in range(K)]
            right, bound = sum(products), sum(map(abs, products))
            if not abs(to_float(d[i * N + j]) - right) <= 2**-8 * abs(right) + 2**-20 * bound:
                sys.exit(f"D[{i}][{j}] is {to_float(d[i * N + j])}, not {right}")
    print(f"{kernel}: D is right")


if __name__ == "__main__":
    main()
