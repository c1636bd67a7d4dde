// Which GPC an SM belongs to, as far as launches tell: the CTAs of a cluster lie in one GPC, so SMs
// that were ever in one cluster are of one GPC. Host code without CUDA.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace limits {

class Gpcs {
 public:
  // %smid of the CTAs of one launch, by CTA index; clusters are `cluster` neighbours.
  void add(const std::vector<int>& sms, int cluster) {
    for (size_t i = 0; i < sms.size(); ++i) {
      join(sms[i], sms[i / static_cast<size_t>(cluster) * static_cast<size_t>(cluster)]);
    }
  }

  // A letter for an SM: A for the GPC with SM 0 or the lowest SM that was seen, then B, and so on.
  char letter(int sm) const {
    const std::vector<std::vector<int>> all = groups();
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::find(all[i].begin(), all[i].end(), sm) != all[i].end()) {
        return i < 26 ? static_cast<char>('A' + i) : '?';
      }
    }
    return '?';
  }

  // The SMs of each GPC, in ascending order.
  std::vector<std::vector<int>> groups() const {
    std::map<int, std::vector<int>> by_first;
    std::map<int, int> first_of;  // root: lowest SM
    for (const auto& [sm, parent] : parent_) first_of.emplace(root(sm), sm);
    for (const auto& [sm, parent] : parent_) by_first[first_of.at(root(sm))].push_back(sm);
    std::vector<std::vector<int>> all;
    for (auto& [first, sms] : by_first) all.push_back(sms);
    return all;
  }

 private:
  int root(int sm) const {
    while (parent_.at(sm) != sm) sm = parent_.at(sm);
    return sm;
  }
  void join(int one, int other) {
    parent_.emplace(one, one);
    parent_.emplace(other, other);
    parent_[root(one)] = root(other);
  }
  std::map<int, int> parent_;
};

// How far apart a launch's CTAs are: of those with neighbouring indices, the share that lies in one
// GPC; and how many GPCs 16 neighbours lie in, on average.
struct Spread {
  double neighbours_together = 0, gpcs_of_16 = 0;
};

// letters: the GPC of each CTA, as Gpcs::letter() names it, by CTA index.
inline Spread spread_of(const std::string& letters) {
  Spread spread;
  size_t together = 0, windows = 0, gpcs = 0;
  for (size_t i = 1; i < letters.size(); ++i) together += letters[i] == letters[i - 1] ? 1 : 0;
  for (size_t i = 0; i + 16 <= letters.size(); i += 16, ++windows) {
    std::string window = letters.substr(i, 16);
    std::sort(window.begin(), window.end());
    gpcs += static_cast<size_t>(std::unique(window.begin(), window.end()) - window.begin());
  }
  if (letters.size() > 1) {
    spread.neighbours_together = static_cast<double>(together) / double(letters.size() - 1);
  }
  if (windows > 0) spread.gpcs_of_16 = static_cast<double>(gpcs) / static_cast<double>(windows);
  return spread;
}

}  // namespace limits
