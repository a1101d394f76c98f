#include "services/text/template_values.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::text {
namespace {

using Json = nlohmann::ordered_json;

// The roles of the chat protocols. Others are the client's own words.
constexpr absl::string_view kRoles[] = {
    "system",   "developer", "user",  "assistant",
    "function", "tool",      "model", "ipython",
};

// Variables that the conversation and the model file decide.
constexpr absl::string_view kReserved[] = {"messages", "bos_token",
                                           "eos_token"};

jinja::value InputString(const std::string& text) {
  return jinja::mk_val<jinja::value_string>(jinja::string(text, true));
}

jinja::value RoleValue(const std::string& role) {
  for (absl::string_view known : kRoles) {
    if (role == known) return jinja::mk_val<jinja::value_string>(role);
  }
  return InputString(role);
}

// Null if `json` is nested deeper than `depth`.
jinja::value FromJson(const Json& json, int depth) {
  if (depth <= 0) return nullptr;
  switch (json.type()) {
    case Json::value_t::boolean:
      return jinja::mk_val<jinja::value_bool>(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return jinja::mk_val<jinja::value_int>(json.get<int64_t>());
    case Json::value_t::number_float:
      return jinja::mk_val<jinja::value_float>(json.get<double>());
    case Json::value_t::string:
      return InputString(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      auto array = jinja::mk_val<jinja::value_array>();
      for (const Json& item : json) {
        jinja::value value = FromJson(item, depth - 1);
        if (value == nullptr) return nullptr;
        array->push_back(std::move(value));
      }
      return array;
    }
    case Json::value_t::object: {
      auto object = jinja::mk_val<jinja::value_object>();
      for (const auto& [key, item] : json.items()) {
        jinja::value value = FromJson(item, depth - 1);
        if (value == nullptr) return nullptr;
        object->insert(InputString(key), value);
      }
      return object;
    }
    default:
      return jinja::mk_val<jinja::value_none>();
  }
}

}  // namespace

jinja::value MessagesValue(const std::vector<ChatTurn>& turns) {
  auto messages = jinja::mk_val<jinja::value_array>();
  for (const ChatTurn& turn : turns) {
    auto message = jinja::mk_val<jinja::value_object>();
    message->insert("role", RoleValue(turn.role));
    message->insert("content", InputString(turn.content));
    if (!turn.name.empty()) message->insert("name", InputString(turn.name));
    if (!turn.reasoning_content.empty()) {
      message->insert("reasoning_content", InputString(turn.reasoning_content));
    }
    messages->push_back(std::move(message));
  }
  return messages;
}

absl::Status SetKwargs(absl::string_view kwargs_json, int max_depth,
                       jinja::context& context) {
  if (kwargs_json.empty()) return absl::OkStatus();
  const Json json =
      Json::parse(kwargs_json.data(), kwargs_json.data() + kwargs_json.size(),
                  nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        "chat template arguments: not a JSON object");
  }
  for (const auto& [key, item] : json.items()) {
    for (absl::string_view reserved : kReserved) {
      if (key == reserved) {
        return absl::InvalidArgumentError(
            absl::StrCat("chat template arguments: ", key, " cannot be set"));
      }
    }
    const jinja::value value = FromJson(item, max_depth);
    if (value == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "chat template arguments: nested deeper than ", max_depth));
    }
    context.set_val(key, value);
  }
  return absl::OkStatus();
}

}  // namespace baton::text
