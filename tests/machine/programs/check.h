// How a program of this folder ends at the first thing that is not as it should be.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      std::printf("line %d is wrong: %s\n", __LINE__, #condition); \
      std::exit(1);                                                \
    }                                                              \
  } while (false)
