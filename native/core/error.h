// The one exception of native code: bad arguments and broken set-up. The addon turns it into a MooncakeKvError; failures that
// are expected at run time are codes (codes.h), never exceptions.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace mooncake_kv {

class Error : public std::runtime_error {
 public:
  Error(std::string code, std::string field, std::string value, std::string problem, std::string remedy)
      : std::runtime_error(field + ": " + problem + (value.empty() ? "" : " (got " + value + ")") + ". " + remedy),
        code(std::move(code)),
        field(std::move(field)),
        value(std::move(value)),
        problem(std::move(problem)),
        remedy(std::move(remedy)) {}

  const std::string code;
  const std::string field;
  const std::string value;
  const std::string problem;
  const std::string remedy;
};

inline Error invalidValue(std::string field, std::string value, std::string problem, std::string remedy) {
  return Error("INVALID_VALUE", std::move(field), std::move(value), std::move(problem), std::move(remedy));
}
inline Error invalidValue(std::string field, int64_t value, std::string problem, std::string remedy) {
  return invalidValue(std::move(field), std::to_string(value), std::move(problem), std::move(remedy));
}

}  // namespace mooncake_kv
