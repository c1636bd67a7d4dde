#include "common/host/best.h"

#include <algorithm>
#include <list>
#include <string>

#include "common/host/error.h"

namespace ladder {
namespace {

const Variant& least_of_all(const ProblemKind& kind, const Call& call, bool workspace) {
  const Variant* best = nullptr;
  double best_us = 0;
  for (const Stage& stage : stages()) {
    if (&stage.kind() != &kind) continue;
    const Variant* const variant = least_predicted(stage.variants, call, workspace);
    if (variant == nullptr) continue;
    const double us = variant->predicted_us(call);
    if (best != nullptr && us >= best_us) continue;
    best = variant;
    best_us = us;
  }
  if (best != nullptr) return *best;
  throw Refused(
      "stage is 0, but of the kernels that predict a time none can run this call, with max_ctas " +
      std::to_string(call.max_ctas) + " and " + (workspace ? "a" : "no") +
      " workspace; the nearest that works is a rung by its number.");
}

const Variant& choose(const ProblemKind& kind, const Call& call) {
  return least_of_all(kind, call, call.workspace != nullptr);
}

const Variant& choose_without_workspace(const ProblemKind& kind, const Call& call) {
  return least_of_all(kind, call, false);
}

// Of a rung's kind.
Stage make_stage(const Stage& rung) {
  static std::list<std::string> names;  // which variants point to
  const ProblemKind& kind = rung.kind();
  const std::string suffix = &kind == &GemmArgs::kind() ? "" : "_" + std::string(kind.name());
  const GridRules any{"best", 1 << 20, true, 1};  // what is chosen has rules of its own
  const auto variant = [&](const char* end, const char* what, auto function) {
    names.push_back("best" + suffix + end);
    const Variant& first = rung.variants.front();
    const auto kind_function = first.chooses() ? first.chooser.choose.kind_function()
                                               : first.kernel.launch.kind_function();
    return Variant{.name = names.back().c_str(),
                   .what = what,
                   .kernel = {},
                   .chooser = {{function, kind_function}, any}};
  };
  return {0,
          "best",
          "the kernel with the least predicted time, of all rungs",
          {variant("", "any kernel", choose).as_result(),
           variant("_no_workspace", "one that needs no workspace", choose_without_workspace)}};
}

bool predicts(const Stage& stage) {
  return std::any_of(stage.variants.begin(), stage.variants.end(), [](const Variant& variant) {
    return static_cast<bool>(variant.predicted_us);
  });
}

std::vector<Stage> make_all() {
  std::vector<Stage> all;
  for (const Stage& rung : stages()) {
    const bool known = std::any_of(all.begin(), all.end(),
                                   [&](const Stage& best) { return &best.kind() == &rung.kind(); });
    if (!known && predicts(rung)) all.push_back(make_stage(rung));
  }
  all.insert(all.end(), stages().begin(), stages().end());
  return all;
}

}  // namespace

const std::vector<Stage>& all_stages() {
  static const std::vector<Stage> all = make_all();
  return all;
}

const Stage* best_stage(const ProblemKind& kind) {
  for (const Stage& stage : all_stages()) {
    if (stage.number == 0 && &stage.kind() == &kind) return &stage;
  }
  return nullptr;
}

}  // namespace ladder
