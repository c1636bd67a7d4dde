#include "common/host/registry.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace ladder {
namespace {

// Function-local, so that it exists before the first Registrar of any other file runs.
std::vector<Stage>& registered() {
  static std::vector<Stage> all;
  return all;
}

// A rung that breaks a rule is a mistake in its file, found before main() begins.
[[noreturn]] void reject(const std::string& stem, const std::string& why) {
  std::fprintf(stderr, "The registration of stages/%s.cu is wrong: %s.\n", stem.c_str(),
               why.c_str());
  std::abort();
}

std::string stem_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = file.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > begin;
  return file.substr(begin, has_extension ? dot - begin : std::string::npos);
}

int number_of(const std::string& stem) {
  size_t digits = 0;
  while (digits < stem.size() && std::isdigit(static_cast<unsigned char>(stem[digits]))) ++digits;
  const bool shaped_right = digits == 2 && stem.size() > 3 && stem[2] == '_';
  const int number = shaped_right ? std::atoi(stem.c_str()) : 0;
  if (number < 1) reject(stem, "its name must be two digits from 01 on, '_' and a word");
  return number;
}

void check_variants(const Stage& stage) {
  int results = 0;
  for (const Variant& variant : stage.variants) {
    results += variant.result ? 1 : 0;
    const auto same_name = [&](const Variant& other) {
      return std::string(other.name) == variant.name;
    };
    if (std::count_if(stage.variants.begin(), stage.variants.end(), same_name) != 1) {
      reject(stage.stem, "two variants are named " + std::string(variant.name));
    }
  }
  if (results != 1) {
    reject(stage.stem,
           "exactly one variant must be marked as the result, not " + std::to_string(results));
  }
}

}  // namespace

const Variant& chosen(const Variant& variant, const GemmArgs& args) {
  const bool runs_a_kernel = args.m > 0 && args.n > 0 && args.k > 0;
  return variant.choose != nullptr && runs_a_kernel ? variant.choose(args) : variant;
}

const Variant& least_predicted(const std::vector<Variant>& configurations, const GemmArgs& args) {
  const Variant* best = nullptr;
  double best_us = 0;
  for (const Variant& candidate : configurations) {
    const int cluster_ctas = candidate.cluster_m * candidate.cluster_n;
    if (args.max_ctas > 0 && !(candidate.persistent && cluster_ctas <= args.max_ctas)) continue;
    const double us = candidate.predicted_us(args);
    if (best == nullptr || us < best_us) {
      best = &candidate;
      best_us = us;
    }
  }
  return *best;
}

Variant chooser_among(const char* name, const char* what,
                      const std::vector<Variant>& configurations,
                      const Variant& (*choose)(const GemmArgs&)) {
  Variant chooser = configurations.front();
  chooser.name = name;
  chooser.what = what;
  chooser.configuration = false;
  chooser.predicted_us = nullptr;
  chooser.choose = choose;
  for (const Variant& each : configurations) chooser.bn = std::min(chooser.bn, each.bn);
  return chooser;
}

const Variant& Stage::result() const {
  return *std::find_if(variants.begin(), variants.end(),
                       [](const Variant& variant) { return variant.result; });
}

const std::vector<Stage>& stages() {
  return registered();
}

Registrar::Registrar(const char* file, const char* idea, std::vector<Variant> variants) {
  const std::string stem = stem_of(file);
  Stage stage{number_of(stem), stem, idea, std::move(variants)};
  check_variants(stage);

  // Kept in order, since files initialise in whatever order they were linked.
  std::vector<Stage>& all = registered();
  const auto place =
      std::lower_bound(all.begin(), all.end(), stage.number,
                       [](const Stage& other, int number) { return other.number < number; });
  if (place != all.end() && place->number == stage.number) {
    reject(stem, "its number is taken by " + place->stem);
  }
  all.insert(place, std::move(stage));
}

}  // namespace ladder
