// Stands in for the wrapper of the same name where common/block is compiled for the host: notes what
// a lane gives to the instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ptx/memory.cuh"

namespace ptx {

struct Stmatrix {
  const unsigned char* row;
  uint32_t registers[4];
};
inline std::vector<Stmatrix> noted;

inline void stmatrix_x4(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  noted.push_back({static_cast<unsigned char*>(row), {r0, r1, r2, r3}});
}

}  // namespace ptx
