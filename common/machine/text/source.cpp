// Where a statement of PTX stands in the source. It reads no file.
#include "common/machine/text/source.h"

#include <filesystem>

namespace machine {

uint32_t own_line(const Ptx& ptx, uint32_t place) {
  uint32_t outermost = place;
  while (ptx.places[outermost].caller != 0) outermost = ptx.places[outermost].caller;
  while (ptx.places[place].file != ptx.places[outermost].file) place = ptx.places[place].caller;
  return place;
}

Origin::Place source_of(const Ptx& ptx, uint32_t place) {
  const Place& at = ptx.places[place];
  const auto found = ptx.files.find(at.file);
  if (found == ptx.files.end()) return {};
  std::error_code unreadable;
  const auto here = std::filesystem::current_path(unreadable);
  std::filesystem::path path = std::filesystem::path(found->second).lexically_normal();
  if (path.is_absolute() && !unreadable) {
    const auto relative = path.lexically_relative(here);
    if (!relative.empty() && *relative.begin() != "..") path = relative;
  }
  return {path.string(), at.line, {}};
}

void refuse_statement(const Ptx& ptx, const Statement& statement, const std::string& why) {
  const Origin::Place place = source_of(ptx, own_line(ptx, statement.place));
  std::string where = joined("PTX line ", statement.ptx_line);
  if (place.line != 0) where = joined(place.file, ":", place.line, " (", where, ")");
  Origin origin;
  origin.place = place;
  throw Error(Error::Kind::refused, joined("'", statement.opcode, "' at ", where, ": ", why),
              rule::REFUSED, origin);
}

void refuse_function(const Ptx& ptx, const Function& function) {
  Origin origin;
  origin.place = source_of(ptx, own_line(ptx, function.refusal_place));
  std::string why = function.refusal;
  if (origin.place.line != 0) {
    why += joined(" (behind ", origin.place.file, ":", origin.place.line, ")");
  }
  throw Error(Error::Kind::refused, why, rule::REFUSED, origin);
}

}  // namespace machine
