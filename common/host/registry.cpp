#include "common/host/registry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

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
  for (const Variant& variant : stage.variants) {
    if (static_cast<bool>(variant.kernel.launch) == variant.chooses()) {
      reject(stage.stem, std::string(variant.name) + " must have either a kernel or a chooser");
    }
    if (variant.kernel.cluster_m < 1 || variant.kernel.cluster_n < 1) {
      reject(stage.stem, std::string(variant.name) + " has clusters of no CTA");
    }
    if (&variant.kind() != &stage.kind()) {
      reject(stage.stem, "its variants solve two kinds of problem, " +
                             std::string(stage.kind().name()) + " and " + variant.kind().name() +
                             "; all variants of a rung take the same arguments, so give their "
                             "launch functions one type of them");
    }
  }
}

// All that a choice depends on.
struct Question {
  CallFunction<const Variant&>::Id chooser = nullptr;
  const ProblemKind* kind = nullptr;
  std::array<int, 6> numbers{};  // m, n, k, max_ctas, device, whether there is a workspace
  ProblemKind::Traits traits{};

  Question() = default;
  Question(const Chooser& asked, const Call& call)
      : chooser(asked.choose.id()),
        kind(&asked.choose.kind()),
        numbers{call.m, call.n, call.k, call.max_ctas, -1, call.workspace != nullptr},
        traits(kind->traits(call)) {
    if (cudaGetDevice(&numbers[4]) != cudaSuccess) cudaGetLastError();  // without one all are alike
  }
  bool operator==(const Question&) const = default;

  size_t hash() const {
    uint64_t value = 0;
    const auto add = [&value](uint64_t number) {
      value = (value ^ number) * 0x9e3779b97f4a7c15u;  // spreads every bit to those above it
      value ^= value >> 32;                            // and those to the bits below
    };
    add(reinterpret_cast<uintptr_t>(chooser));
    for (const int number : numbers) add(static_cast<uint64_t>(number));
    for (const long long trait : traits) add(static_cast<uint64_t>(trait));
    return value;
  }
};

// A thread's latest answers: a predicted time of every configuration costs more than a launch. A
// question has two places, the later asked first, so that two that meet there do not drive each
// other out at every call.
struct Choice {
  Question question;
  const Variant* variant = nullptr;

  bool answers(const Question& asked) const { return variant != nullptr && question == asked; }
};

}  // namespace

GridRules Variant::rules() const {
  if (chooses()) {
    GridRules all = chooser.rules;
    all.name = name;
    return all;
  }
  return {name, kernel.bn, kernel.persistent, kernel.cluster_m * kernel.cluster_n,
          kernel.grid_y && !kernel.persistent};
}

const ProblemKind& Variant::kind() const {
  return chooses() ? chooser.choose.kind() : kernel.launch.kind();
}

const Variant& chosen(const Variant& variant, const Call& call) {
  if (!variant.chooses() || !variant.kind().needs_kernel(call)) return variant;
  thread_local std::array<std::array<Choice, 2>, 128> lately;
  const Question question(variant.chooser, call);
  auto& [first, second] = lately[question.hash() % lately.size()];
  if (!first.answers(question)) {
    std::swap(first, second);
    if (!first.answers(question)) first = {question, &variant.chooser.choose(call)};
  }
  return *first.variant;
}

const Variant* least_predicted(const std::vector<Variant>& variants, const Call& call) {
  return least_predicted(variants, call, call.workspace != nullptr);
}

const Variant* least_predicted(const std::vector<Variant>& variants, const Call& call,
                               bool workspace) {
  const Variant* best = nullptr;
  double best_us = 0;
  for (const Variant& candidate : variants) {
    if (!candidate.predicted_us || (candidate.takes && !candidate.takes(call))) continue;
    if (candidate.kernel.workspace_bytes > 0 && !workspace) continue;
    const GridRules rules = candidate.rules();
    if (call.max_ctas > 0 && !(rules.persistent && rules.cluster <= call.max_ctas)) continue;
    const double us = candidate.predicted_us(call);
    if (best == nullptr || us < best_us) {
      best = &candidate;
      best_us = us;
    }
  }
  return best;
}

const Variant* first_that_takes(const std::vector<Variant>& variants, const Call& call) {
  const auto takes = [&](const Variant& each) { return !each.takes || each.takes(call); };
  const auto found = std::find_if(variants.begin(), variants.end(), takes);
  return found == variants.end() ? nullptr : &*found;
}

Variant chooser_among(const char* name, const char* what,
                      const std::vector<Variant>& configurations,
                      CallFunction<const Variant&> choose) {
  GridRules rules = configurations.front().rules();
  int workspace_bytes = 0;
  for (const Variant& each : configurations) {
    workspace_bytes = std::max(workspace_bytes, each.kernel.workspace_bytes);
    const GridRules own = each.rules();
    rules.bn = std::min(rules.bn, own.bn);
    rules.cluster = std::min(rules.cluster, own.cluster);
    rules.persistent |= own.persistent;
    rules.grid_y &= own.grid_y;
  }
  return {.name = name, .what = what, .kernel = {}, .chooser = {choose, rules, workspace_bytes}};
}

const Variant& Stage::result() const {
  return *std::find_if(variants.begin(), variants.end(),
                       [](const Variant& variant) { return variant.result; });
}

const std::vector<Stage>& stages() {
  return registered();
}

const Stage& rung_of(const Variant& variant) {
  const auto registered_it = [&](const Stage& stage) {
    return std::any_of(stage.variants.begin(), stage.variants.end(),
                       [&](const Variant& each) { return &each == &variant; });
  };
  return *std::find_if(registered().begin(), registered().end(), registered_it);
}

size_t workspace_bytes(int sms) {
  int most = 0;  // for each SM
  for (const Stage& stage : registered()) {
    for (const Variant& each : stage.variants) {
      most = std::max({most, each.kernel.workspace_bytes, each.chooser.workspace_bytes});
    }
  }
  return most == 0 ? 0 : WORKSPACE_COUNTER_BYTES + static_cast<size_t>(most) * sms;
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
