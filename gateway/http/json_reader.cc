#include "gateway/http/json_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

absl::Status InvalidBody(absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(message), "invalid_value");
}

// Checks depth and count without building anything: the parser and the
// document's destructor must never see a document deep enough to exhaust a
// stack, or one that takes far more memory than its text.
absl::Status CheckShape(absl::string_view text) {
  int depth = 0;
  size_t values = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '}' || c == ']') --depth;
    if (c == ',') ++values;
    if (c != '{' && c != '[') continue;
    ++values;
    if (++depth > kMaxJsonDepth) {
      return InvalidBody(absl::StrCat("The request body is nested deeper than ",
                                      kMaxJsonDepth, " levels"));
    }
  }
  if (values <= kMaxJsonValues) return absl::OkStatus();
  return InvalidBody(absl::StrCat("The request body holds more than ",
                                  kMaxJsonValues, " values"));
}

std::optional<int64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  // Doubles hold every whole number up to 2^53.
  if (std::fabs(number) > 9007199254740992.0 || std::trunc(number) != number) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

}  // namespace

absl::StatusOr<Json> ParseJsonObject(absl::string_view text) {
  BATON_RETURN_IF_ERROR(CheckShape(text));
  Json value = Json::parse(text.data(), text.data() + text.size(), nullptr,
                           /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return InvalidBody(
        "The request body is not valid JSON in UTF-8, or holds a number out "
        "of range");
  }
  if (!value.is_object()) {
    return InvalidBody("The request body is not a JSON object");
  }
  return value;
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status InvalidField(absl::string_view field, absl::string_view message) {
  return WithField(WithReason(absl::InvalidArgumentError(
                                  absl::StrCat("'", field, "' ", message)),
                              "invalid_value"),
                   field);
}

std::optional<std::vector<TokenId>> TokenArray(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<TokenId> tokens;
  tokens.reserve(value.size());
  for (const Json& item : value) {
    const std::optional<int64_t> id = WholeNumber(item);
    if (!id.has_value() || *id < 0 ||
        *id > std::numeric_limits<TokenId>::max()) {
      return std::nullopt;
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  return tokens;
}

const Json* FieldReader::Find(const char* name) const {
  const auto found = object_.find(name);
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::String(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "must be a string");
  return std::nullopt;
}

std::optional<float> FieldReader::Float(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    Fail(name, "must be a number");
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
    Fail(name, "is out of range");
    return std::nullopt;
  }
  return static_cast<float>(number);
}

std::optional<int64_t> FieldReader::Integer(const char* name, int64_t low,
                                            int64_t high) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = WholeNumber(*value);
  if (!number.has_value()) {
    Fail(name, "must be a whole number");
    return std::nullopt;
  }
  if (*number < low || *number > high) {
    Fail(name, absl::StrCat("must be between ", low, " and ", high));
    return std::nullopt;
  }
  return number;
}

std::optional<uint32_t> FieldReader::Unsigned(const char* name) {
  const std::optional<int64_t> number =
      Integer(name, 0, std::numeric_limits<uint32_t>::max());
  if (!number.has_value()) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

std::optional<uint64_t> FieldReader::Bits64(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  const std::optional<int64_t> number = Integer(name);
  if (!number.has_value()) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::vector<TokenId> FieldReader::TokenIds(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  std::optional<std::vector<TokenId>> tokens = TokenArray(*value);
  if (!tokens.has_value()) {
    Fail(name, "must be an array of token ids");
    return {};
  }
  return *std::move(tokens);
}

std::vector<std::string> FieldReader::Strings(const char* name) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> strings;
  bool all_strings = value->is_array();
  for (const Json& item : *value) {
    if (!all_strings || !item.is_string()) {
      all_strings = false;
      break;
    }
    strings.push_back(item.get<std::string>());
  }
  if (!all_strings) Fail(name, "must be a string or an array of strings");
  return strings;
}

void FieldReader::Fail(const char* name, absl::string_view message) {
  if (status_.ok()) status_ = InvalidField(path_ + name, message);
}

}  // namespace baton::gateway
