// Computes constant expressions as ptxas does: integers have 64 bits, with or without a sign, real
// numbers are doubles. It knows no name but WARP_SZ.
#include "common/machine/text/constant.h"

#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace machine {
namespace {

enum class Type : uint8_t { s64, u64, f64, f32 };  // f32: 0f3F800000, with which nothing computes

struct Value {
  Type type = Type::s64;
  uint64_t bits = 0;

  double real() const { return std::bit_cast<double>(bits); }
};

Value of_real(double number) {
  return {Type::f64, std::bit_cast<uint64_t>(number)};
}

// How tightly an operator between two operands binds; 0: it is none.
constexpr int EQUALITY = 6, ORDER = 7;
int level_of(std::string_view op) {
  static constexpr std::pair<std::string_view, int> LEVELS[] = {
      {"||", 1},        {"&&", 2},    {"|", 3},      {"^", 4},     {"&", 5},      {"==", EQUALITY},
      {"!=", EQUALITY}, {"<", ORDER}, {"<=", ORDER}, {">", ORDER}, {">=", ORDER}, {"<<", 8},
      {">>", 8},        {"+", 9},     {"-", 9},      {"*", 10},    {"/", 10},     {"%", 10}};
  for (const auto& [name, level] : LEVELS) {
    if (name == op) return level;
  }
  return 0;
}

bool is_comparison(std::string_view op) {
  return level_of(op) == EQUALITY || level_of(op) == ORDER;
}

template <class T>
bool holds(std::string_view op, T a, T b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  return op == ">" ? a > b : a >= b;
}

class Expression {
 public:
  explicit Expression(Lexer* lex) : lex_(*lex) {}

  // The result of ?: has the type of what is chosen.
  Value whole() {
    const Nested one(*this);
    const Value value = binary(0);
    if (!lex_.accept("?")) return value;
    const Value a = whole();
    lex_.expect(":");
    const Value b = whole();
    integer(a);
    integer(b);
    return integer(value) != 0 ? a : b;
  }

  uint64_t integer(const Value& value) const {
    if (value.type == Type::f64 || value.type == Type::f32) lex_.fail("expected an integer");
    return value.bits;
  }

 private:
  // Operators that bind more tightly than `level`; those of one level are taken from the left.
  Value binary(int level) {
    Value left = unary();
    for (int next = level_of(lex_.token()); next > level; next = level_of(lex_.token())) {
      const std::string_view op = lex_.take();
      const Value right = binary(next);
      const bool real = left.type == Type::f64 && right.type == Type::f64;
      left = real ? of_reals(op, left.real(), right.real()) : of_integers(op, left, right);
    }
    return left;
  }

  Value of_reals(std::string_view op, double a, double b) const {
    if (is_comparison(op)) return {Type::s64, holds(op, a, b)};
    if (op == "+") return of_real(a + b);
    if (op == "-") return of_real(a - b);
    if (op == "*") return of_real(a * b);
    if (op != "/") lex_.fail("expected integers around '" + std::string(op) + "'");
    if (b == 0) lex_.fail("a constant is divided by zero");
    return of_real(a / b);
  }

  Value of_integers(std::string_view op, const Value& left, const Value& right) const {
    const uint64_t a = integer(left), b = integer(right);
    const auto signed_a = static_cast<int64_t>(a), signed_b = static_cast<int64_t>(b);
    const bool is_signed = left.type == Type::s64 && right.type == Type::s64;
    const Type type = is_signed ? Type::s64 : Type::u64;
    if (is_comparison(op)) {
      return {Type::s64, is_signed ? holds(op, signed_a, signed_b) : holds(op, a, b)};
    }
    if (op == "||") return {Type::s64, a != 0 || b != 0};
    if (op == "&&") return {Type::s64, a != 0 && b != 0};
    if (op == "|") return {type, a | b};
    if (op == "^") return {type, a ^ b};
    if (op == "&") return {type, a & b};
    if (op == "+") return {type, a + b};
    if (op == "-") return {type, a - b};
    if (op == "*") return {type, a * b};
    if (op == "<<") return {left.type, a << (b & 63)};
    if (op == ">>") {
      const bool arithmetic = left.type == Type::s64;
      return {left.type, arithmetic ? static_cast<uint64_t>(signed_a >> (b & 63)) : a >> (b & 63)};
    }
    if (b == 0) lex_.fail("a constant is divided by zero");
    if (op == "%") return {Type::u64, a % b};
    if (!is_signed) return {type, a / b};
    return {type, signed_b == -1 ? -a : static_cast<uint64_t>(signed_a / signed_b)};
  }

  Value unary() {
    const Nested one(*this);
    if (lex_.is("+") || lex_.is("-")) {
      const bool minus = lex_.take() == "-";
      const Value value = unary();
      if (value.type == Type::f64) return minus ? of_real(-value.real()) : value;
      return {value.type, minus ? -integer(value) : integer(value)};
    }
    if (lex_.accept("!")) return {Type::s64, integer(unary()) == 0};
    if (lex_.accept("~")) return {Type::u64, ~integer(unary())};
    if (!lex_.accept("(")) return number();
    for (const auto& [name, type] : {std::pair{".s64", Type::s64}, {".u64", Type::u64}}) {
      if (!lex_.accept(name)) continue;
      lex_.expect(")");
      return {type, integer(unary())};
    }
    const Value value = whole();
    lex_.expect(")");
    return value;
  }

  Value number() {
    const std::string word(lex_.token());
    if (lex_.accept("WARP_SZ")) return {Type::s64, 32};
    const char second = word.size() > 2 && word[0] == '0' ? word[1] : ' ';
    char* end = nullptr;
    if (std::strchr("fFdD", second) != nullptr) {
      const uint64_t bits = std::strtoull(word.c_str() + 2, &end, 16);
      if (*end != '\0') lex_.fail("expected a number");
      lex_.take();
      return {second == 'f' || second == 'F' ? Type::f32 : Type::f64, bits};
    }
    if (std::strchr("xX", second) == nullptr && word.find_first_of(".eE") != std::string::npos) {
      const double value = std::strtod(word.c_str(), &end);
      if (*end != '\0') lex_.fail("expected a number");
      lex_.take();
      return of_real(value);
    }
    const auto bits = lex_.number();
    const bool fits = !word.ends_with('U') && bits >> 63 == 0;
    return {fits ? Type::s64 : Type::u64, bits};
  }

  // A part in a part: as deep as this, or a text could exhaust the stack.
  struct Nested {
    explicit Nested(Expression& of) : depth(of.depth_) {
      if (++depth > MOST_NESTED) of.lex_.fail("parts of an expression are nested too deeply");
    }
    ~Nested() { --depth; }
    int& depth;
  };
  static constexpr int MOST_NESTED = 256;

  Lexer& lex_;
  int depth_ = 0;
};

}  // namespace

bool at_constant(Lexer lex) {
  while (lex.accept("!")) {
  }
  const std::string_view word = lex.token();
  if (word.empty()) return false;
  const char first = word.size() > 1 && word[0] == '.' ? word[1] : word[0];
  return std::isdigit(static_cast<unsigned char>(first)) || word == "WARP_SZ" ||
         (word.size() == 1 && std::strchr("+-~(", first) != nullptr);
}

Operand take_constant(Lexer* lex) {
  const Value value = Expression(lex).whole();
  Operand made;
  made.bits = value.bits;
  if (value.type == Type::f32) made.kind = Operand::Kind::f32;
  if (value.type == Type::f64) made.kind = Operand::Kind::f64;
  return made;
}

uint64_t take_integer(Lexer* lex) {
  Expression expression(lex);
  return expression.integer(expression.whole());
}

// name, name+4, generic(name)+4
static Address take_address(Lexer* lex, uint64_t at, size_t bytes) {
  Address made;
  made.at = at;
  made.bytes = static_cast<uint32_t>(bytes);
  const bool generic = lex->accept("generic");
  if (generic) lex->expect("(");
  made.name = lex->take();
  if (generic) lex->expect(")");
  if (lex->accept("+")) made.plus = take_integer(lex);
  return made;
}

void take_initial(Lexer* lex, std::string_view type, size_t bytes, Variable* made) {
  if (lex->accept("{")) {
    while (!lex->accept("}")) {
      take_initial(lex, type, bytes, made);
      lex->accept(",");
    }
    return;
  }
  const size_t at = made->initial.size();
  made->initial.resize(at + bytes);
  if (!at_constant(*lex)) {
    made->addresses.push_back(take_address(lex, at, bytes));
    return;
  }
  const Operand value = take_constant(lex);
  uint64_t bits = value.bits;
  if (lex->accept("(")) {  // 0xFF00(name): this byte of the address
    made->addresses.push_back(take_address(lex, at, bytes));
    made->addresses.back().shift = static_cast<uint32_t>(std::countr_zero(bits)) % 64;
    lex->expect(")");
    return;
  }
  if (type == ".f32" && value.kind == Operand::Kind::f64) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  } else if (type == ".f64" && value.kind == Operand::Kind::f32) {
    const auto single = std::bit_cast<float>(static_cast<uint32_t>(bits));
    bits = std::bit_cast<uint64_t>(double{single});
  }
  std::memcpy(made->initial.data() + at, &bits, bytes);
}

}  // namespace machine
