// Whether each step of a layer of experts made what it should of what the step before made.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/host/text.h"
#include "common/host/tolerance.h"
#include "docs/programs/moe_layer.cuh"

namespace moe {

template <class T>
std::vector<T> on_host(const DeviceBuffer& from) {
  std::vector<T> to(from.bytes() / sizeof(T));
  check_cuda(cudaMemcpy(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  return to;
}

// What place has to find.
struct Placed {
  std::vector<int> offsets, row_of, token_of;
  int rows = 0, skipped = 0;  // of experts that fit; 1 + the first that does not
};

inline Placed place_on_host(const Input& in, int align, int capacity) {
  Placed made{{0}, std::vector<int>(in.picks.size(), NOBODY), {}};
  for (int expert = 0; expert < EXPERTS; ++expert) {
    for (size_t i = 0; i < in.picks.size(); ++i) {
      if (in.picks[i] != expert) continue;
      made.row_of[i] = static_cast<int>(made.token_of.size());
      made.token_of.push_back(static_cast<int>(i) / TOP_K);
    }
    made.token_of.resize(round_up(static_cast<int>(made.token_of.size()), align), NOBODY);
    const int behind = static_cast<int>(made.token_of.size());
    made.offsets.push_back(behind);
    if (behind <= capacity) made.rows = behind;
    if (behind > capacity && made.skipped == 0) made.skipped = expert + 1;
  }
  for (int& row : made.row_of) {
    if (row >= made.rows) row = NOBODY;
  }
  return made;
}

inline double silu(double x) {
  return x / (1 + std::exp(-x));
}

// Every `step`-th row of what each of a layer's steps made, judged by what the step before made; ""
// or what is wrong. `few` takes some columns of the products instead of all.
class Judge {
 public:
  Judge(const Layer& layer, bool few)
      : layer_(layer),
        sizes_(layer.in.sizes),
        placed_(place_on_host(layer.in, layer.by_expert ? CALL_ROWS : 1, layer.capacity)),
        row_step_(few ? 97 : 1),
        col_step_(few ? 61 : 1) {}

  std::string failure() const {
    if (!layer_.by_expert && on_host<int>(layer_.error)[0] != placed_.skipped) {
      return "the error flag is wrong";
    }
    for (const std::string& wrong :
         {placed(), gathered(), multiplied(gate_up_of(layer_), "gate_up"), activated(),
          multiplied(down_of(layer_), "down"), combined()}) {
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  int rows() const { return placed_.rows; }

  std::string placed() const {
    const std::vector<int> token_of = on_host<int>(layer_.token_of);
    if (on_host<int>(layer_.offsets) != placed_.offsets) return "place: wrong offsets";
    const std::vector<int> row_of = on_host<int>(layer_.row_of);
    for (size_t i = 0; i < row_of.size(); ++i) {
      if (layer_.in.picks[i] >= EXPERTS) continue;
      if (row_of[i] != placed_.row_of[i]) return "place: wrong rows";
    }
    const auto* const right = placed_.token_of.data();
    return std::equal(right, right + rows(), token_of.data()) ? "" : "place: wrong tokens";
  }

  ScaleLayout layout(int k) const {
    return {placed_.offsets.data(), k / BLOCK, layer_.capacity, layer_.by_expert};
  }

  // Bit for bit.
  std::string gathered() const {
    const auto x = on_host<bf16>(layer_.in.x);
    const auto q = on_host<e4m3>(layer_.a);
    const auto scale = on_host<float>(layer_.scale_a);
    const size_t k = sizes_.hidden;
    for (int row = 0; row < rows(); row += row_step_) {
      const int token = placed_.token_of[row];
      for (size_t block = 0; block < k / BLOCK; ++block) {
        float value[BLOCK] = {}, largest = 0;
        for (int i = 0; i < BLOCK && token != NOBODY; ++i) {
          value[i] = __bfloat162float(x[token * k + block * BLOCK + i]);
          largest = std::max(largest, std::abs(value[i]));
        }
        const float s = largest > 0 ? largest / LARGEST : 1;
        bool right = scale[layout(sizes_.hidden).of(row).at(static_cast<int>(block))] == s;
        for (int i = 0; i < BLOCK; ++i) {
          right = right && q[row * k + block * BLOCK + i].__x == e4m3(value[i] / s).__x;
        }
        if (!right) return ladder::format("gather: row %d, block %zu", row, block);
      }
    }
    return "";
  }

  std::string multiplied(const Product& p, const char* name) const {
    const auto a = on_host<e4m3>(p.a), b = on_host<e4m3>(p.weights.q);
    const auto scale_a = on_host<float>(p.scale_a), scale_b = on_host<float>(p.weights.scale);
    const auto d = on_host<bf16>(p.d);
    const size_t n = p.weights.n, k = p.weights.k, ld = p.weights.ld_scale();
    for (int row = 0, expert = 0; row < rows(); row += row_step_) {
      while (row >= placed_.offsets[expert + 1]) ++expert;
      for (size_t col = 0; col < n; col += col_step_) {
        double r = 0, s = 0;
        ladder::E4m3Loss loss;
        for (size_t block = 0; block < k / BLOCK; ++block) {
          const double scale =
              double{scale_a[layout(static_cast<int>(k)).of(row).at(static_cast<int>(block))]} *
              scale_b[(expert * (n / BLOCK) + col / BLOCK) * ld + block];
          double sum = 0;
          for (size_t at = block * BLOCK; at < (block + 1) * BLOCK; at += ladder::E4M3_SUM_K) {
            double before = sum, largest = 0;
            int signs = 0;
            for (size_t i = at; i < at + ladder::E4M3_SUM_K; ++i) {
              const double product =
                  double{float(a[row * k + i])} * float(b[(expert * n + col) * k + i]);
              sum += product;
              s += std::abs(scale * product);
              largest = std::max(largest, std::abs(product));
              signs += (product > 0) - (product < 0);
            }
            loss.add(scale, largest, signs, before, sum);
          }
          r += scale * sum;
        }
        const double found = __bfloat162float(d[row * n + col]);
        if (ladder::within_tolerance(found, r, ladder::s_with_loss(s, loss.bound()), 8)) continue;
        return ladder::format("%s: row %d, column %zu is %g but should be %g", name, row, col,
                              found, r);
      }
    }
    return "";
  }

  // Half a step of e4m3, which is 2^-4 of a number or 2^-10 of the scale, and what __expf loses.
  std::string activated() const {
    const auto h = on_host<bf16>(layer_.h);
    const auto q = on_host<e4m3>(layer_.b);
    const auto scale = on_host<float>(layer_.scale_b);
    const size_t k = sizes_.intermediate;
    for (int row = 0; row < rows(); row += row_step_) {
      for (size_t col = 0; col < k; ++col) {
        const double gate = __bfloat162float(h[row * 2 * k + col]);
        const double up = __bfloat162float(h[row * 2 * k + k + col]);
        const double right = silu(gate) * up;
        const double s =
            scale[layout(sizes_.intermediate).of(row).at(static_cast<int>(col / BLOCK))];
        const double found = s * double{float(q[row * k + col])};
        const double bound = std::abs(right) * (1.0 / 16 + 1e-5) + s / 1024;
        if (std::abs(found - right) <= bound) continue;
        return ladder::format("swiglu: row %d, column %zu is %g but should be %g", row, col, found,
                              right);
      }
    }
    return "";
  }

  std::string combined() const {
    const auto y = on_host<bf16>(layer_.y), out = on_host<bf16>(layer_.out);
    const auto weight = on_host<float>(layer_.in.weight);
    const size_t hidden = sizes_.hidden;
    for (size_t token = 0; token < size_t(sizes_.tokens); token += row_step_) {
      for (size_t col = 0; col < hidden; ++col) {
        double r = 0, s = 0;
        for (size_t pick = token * TOP_K; pick < (token + 1) * TOP_K; ++pick) {
          if (placed_.row_of[pick] == NOBODY) continue;
          const double part =
              weight[pick] * __bfloat162float(y[placed_.row_of[pick] * hidden + col]);
          r += part;
          s += std::abs(part);
        }
        const double found = __bfloat162float(out[token * hidden + col]);
        if (ladder::within_tolerance(found, r, s, 8)) continue;
        return ladder::format("combine: token %zu, column %zu is %g but should be %g", token, col,
                              found, r);
      }
    }
    return "";
  }

  const Layer& layer_;
  Sizes sizes_;
  Placed placed_;
  int row_step_, col_step_;
};

}  // namespace moe
