// The few statistics that measurements are reported by.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ladder {

// The q-quantile, 0 <= q <= 1, interpolated linearly between the samples next to it: 0 is the
// smallest, 0.5 the median, 1 the largest. NaN if there is no sample or one is NaN.
inline double quantile(std::vector<double> samples, double q) {
  const bool unknown = std::any_of(samples.begin(), samples.end(), [](double x) { return x != x; });
  if (samples.empty() || unknown) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  const double position = q * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return std::lerp(samples[below], samples[above], position - static_cast<double>(below));
}

inline double median(const std::vector<double>& samples) {
  return quantile(samples, 0.5);
}

// The median of the ratios of samples taken in the same round: what both share, such as the
// temperature of that moment, cancels. Both have one sample a round.
inline double paired_ratio(const std::vector<double>& contestant,
                           const std::vector<double>& baseline) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(contestant.size(), baseline.size()); ++round) {
    ratios.push_back(contestant[round] / baseline[round]);
  }
  return median(ratios);
}

// Who runs when: 0 .. count-1 in even rounds, count-1 .. 0 in odd ones, so that none of them always
// finds the chip as the same neighbour left it.
inline std::vector<int> order_of_round(int count, int round) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace ladder
