// From a table of configurations to a rung's variants, and to the one that chooses among them.
#pragma once

#include <utility>
#include <vector>

#include "common/host/gemm.h"
#include "common/host/registry.h"

namespace ladder {

// The variants of a table's rows: make(row) for each row, an integral constant from 0 to ROWS - 1.
template <int ROWS, class Make>
std::vector<Variant> variant_of_each(Make make) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return std::vector<Variant>{make(std::integral_constant<int, I>{})...};
  }(std::make_integer_sequence<int, ROWS>{});
}

// Chooses, of what CONFIGURATIONS() returns, the one with the least predicted time.
template <const std::vector<Variant>& (*CONFIGURATIONS)()>
Variant least_of(const char* name, const char* what) {
  return chooser_among(
      name, what, CONFIGURATIONS(), +[](const GemmArgs& g) -> const Variant& {
        return *least_predicted(CONFIGURATIONS(), g);
      });
}

}  // namespace ladder
