// What cuBLASLt's configurations are called.
#include <cublasLt.h>
#include <doctest/doctest.h>

#include "common/host/cublas_lt.h"

using ladder::cublas_tile_name;

TEST_CASE("cuBLASLt: tiles have the names of its header") {
  CHECK(cublas_tile_name(CUBLASLT_MATMUL_TILE_64x8) == "64x8");
  CHECK(cublas_tile_name(CUBLASLT_MATMUL_TILE_128x256) == "128x256");
  CHECK(cublas_tile_name(CUBLASLT_MATMUL_TILE_96x64) == "96x64");
  CHECK(cublas_tile_name(CUBLASLT_MATMUL_TILE_256x32) == "256x32");
  // By number: the header of CUDA 13.0 has them.
  CHECK(cublas_tile_name(36) == "8x128");
  CHECK(cublas_tile_name(133) == "72x640");
  CHECK(cublas_tile_name(201) == "176x128");
  CHECK(cublas_tile_name(311) == "768x64");
  CHECK(cublas_tile_name(312) == "64x16");
  CHECK(cublas_tile_name(409) == "128x176");
  CHECK(cublas_tile_name(501) == "256x152");
  CHECK(cublas_tile_name(630) == "768x80");
  CHECK(cublas_tile_name(631) == "id631");
}
