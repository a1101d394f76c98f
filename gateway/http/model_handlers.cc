#include "gateway/http/model_handlers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/http/error_codec.h"
#include "gateway/http/request_codec.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

void Answer(const Call& call, const absl::StatusOr<Json>& answer) {
  if (!answer.ok()) return call.writer->Send(ErrorResponse(answer.status()));
  http::Response response;
  response.body = DumpJson(*answer);
  call.writer->Send(std::move(response));
}

// Context length under each of the names that clients look for; without one
// they guess, and guess too much.
Json ModelObject(const ServedModel& model, const std::string& id) {
  return Json{{"id", id},
              {"object", "model"},
              {"created", model.created_unix_seconds},
              {"owned_by", "baton"},
              {"root", model.name},
              {"max_model_len", model.context_length},
              {"context_length", model.context_length},
              {"max_tokens", model.context_length},
              {"meta", Json{{"architecture", model.architecture},
                            {"file_type", model.file_type},
                            {"n_ctx", model.context_length},
                            {"n_ctx_train", model.context_length},
                            {"n_params", model.parameters},
                            {"n_vocab", model.tokenizer->vocabulary_size()},
                            {"size", model.file_bytes}}}};
}

// The piece as text, or as bytes where it is not valid UTF-8 by itself.
Json PieceOf(const text::Tokenizer& tokenizer, TokenId token) {
  const std::string bytes = tokenizer.TokenBytes(token, true);
  Json piece{{"id", token}, {"piece", bytes}};
  if (Json::parse(DumpJson(piece), nullptr, false)["piece"] != bytes) {
    Json array = Json::array();
    for (const char byte : bytes) array.push_back(static_cast<uint8_t>(byte));
    piece["piece"] = std::move(array);
  }
  return piece;
}

}  // namespace

void ModelHandlers::List(Call call) const {
  Json data = Json::array();
  if (const auto model = models_->Current()) {
    data.push_back(ModelObject(*model, model->name));
    for (const std::string& alias : model->aliases) {
      data.push_back(ModelObject(*model, alias));
    }
  }
  Answer(call, Json{{"object", "list"}, {"data", std::move(data)}});
}

void ModelHandlers::Get(Call call) const { Answer(call, TryGet(call)); }

void ModelHandlers::Tokenize(Call call) const {
  Answer(call, TryTokenize(call));
}

void ModelHandlers::Detokenize(Call call) const {
  Answer(call, TryDetokenize(call));
}

void ModelHandlers::ApplyTemplate(Call call) const {
  Answer(call, TryApplyTemplate(call));
}

absl::StatusOr<Json> ModelHandlers::TryGet(const Call& call) const {
  const std::string& id = call.argument;
  BATON_ASSIGN_OR_RETURN(const auto model, ResolveModel(*models_, id));
  return ModelObject(*model, id);
}

absl::StatusOr<Json> ModelHandlers::TryTokenize(const Call& call) const {
  BATON_ASSIGN_OR_RETURN(const Json body, ParseJsonObject(call.request.body));
  FieldReader reader(body);
  const std::optional<std::string> content = reader.String("content");
  const bool add_special = reader.Bool("add_special").value_or(false);
  const bool parse_special = reader.Bool("parse_special").value_or(true);
  const bool with_pieces = reader.Bool("with_pieces").value_or(false);
  BATON_RETURN_IF_ERROR(reader.status());
  if (!content.has_value()) return InvalidField("content", "is missing");
  BATON_ASSIGN_OR_RETURN(const auto model, ResolveModel(*models_, ""));
  const std::vector<TokenId> ids =
      model->tokenizer->Encode(*content, add_special, parse_special);
  Json tokens = Json::array();
  for (const TokenId id : ids) {
    tokens.push_back(with_pieces ? PieceOf(*model->tokenizer, id) : Json(id));
  }
  return Json{{"tokens", std::move(tokens)}, {"count", ids.size()}};
}

absl::StatusOr<Json> ModelHandlers::TryDetokenize(const Call& call) const {
  BATON_ASSIGN_OR_RETURN(const Json body, ParseJsonObject(call.request.body));
  FieldReader reader(body);
  const std::vector<TokenId> tokens = reader.TokenIds("tokens");
  BATON_RETURN_IF_ERROR(reader.status());
  if (reader.Find("tokens") == nullptr) {
    return InvalidField("tokens", "is missing");
  }
  BATON_ASSIGN_OR_RETURN(const auto model, ResolveModel(*models_, ""));
  std::string content;
  for (const TokenId token : tokens) {
    if (static_cast<uint32_t>(token) >= model->tokenizer->vocabulary_size()) {
      return InvalidField(
          "tokens",
          absl::StrCat("holds ", token, ", which is not in the vocabulary"));
    }
    content += model->tokenizer->TokenBytes(token, true);
  }
  return Json{{"content", content}};
}

absl::StatusOr<Json> ModelHandlers::TryApplyTemplate(const Call& call) const {
  BATON_ASSIGN_OR_RETURN(const Json body, ParseJsonObject(call.request.body));
  if (FieldReader(body).Find("chat_template") != nullptr) {
    return InvalidField("chat_template", "is not taken from clients");
  }
  BATON_ASSIGN_OR_RETURN(const auto turns, ParseMessages(body));
  BATON_ASSIGN_OR_RETURN(const std::string kwargs, ParseTemplateKwargs(body));
  BATON_ASSIGN_OR_RETURN(const auto model, ResolveModel(*models_, ""));
  BATON_ASSIGN_OR_RETURN(const RenderedChat chat,
                         RenderChat(*model, turns, kwargs, FieldNames()));
  std::string prompt;
  for (const text::TextSpan& span : chat.spans) prompt += span.text;
  return Json{{"prompt", prompt}};
}

}  // namespace baton::gateway
