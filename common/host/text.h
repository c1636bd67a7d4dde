// Text that programs print: tables, JSON lines, suggestions.
#pragma once

#include <string>
#include <vector>

namespace ladder {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// The candidate with the fewest edits from `word`; "" if there is none.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

// "did you mean bn256?" where few letters differ or the word is another name for it, such as swish
// for silu; else "try bn64.", the first of them.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& words, const std::string& separator = ", ");

// Lines whose columns stand under each other, two spaces apart, the first row underlined. All rows
// have as many cells as the first. Columns of numbers are flush right. UTF-8 counts as one column a
// character.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "40 s", "12 minutes", "3 hours", "21 years": the unit in which the number is small.
std::string duration_text(double seconds);

// One JSON object on one line. Numbers that are NaN or infinite are null: JSON has no such numbers.
class JsonObject {
 public:
  JsonObject& add(const std::string& key, const std::string& value);
  JsonObject& add(const std::string& key, const char* value);
  JsonObject& add(const std::string& key, double value);  // 7 significant digits
  JsonObject& add(const std::string& key, long long value);
  JsonObject& add(const std::string& key, int value);
  JsonObject& add(const std::string& key, bool value);
  JsonObject& add(const std::string& key, const std::vector<std::string>& values);
  JsonObject& add(const std::string& key, const JsonObject& value);
  JsonObject& add_null(const std::string& key);
  std::string line() const;  // "{...}", no newline

 private:
  JsonObject& add_raw(const std::string& key, const std::string& json);
  std::string members_;
};

}  // namespace ladder
