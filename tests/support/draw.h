// Numbers drawn at random, the same in each run: by a linear congruential generator.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>

namespace ladder_test {

class Draw {
 public:
  double uniform() {  // from 0 to 1
    return static_cast<double>(next() >> 11) * 0x1p-53;
  }
  int between(double low, double high, int multiple) {  // log-uniform
    return static_cast<int>(low * std::pow(high / low, uniform())) / multiple * multiple;
  }
  template <class List>
  auto operator()(const List& list) {  // one of it
    return list[(next() >> 33) % std::size(list)];
  }

 private:
  uint64_t next() { return state_ = state_ * 6364136223846793005u + 1442695040888963407u; }

  uint64_t state_ = 1;
};

}  // namespace ladder_test
