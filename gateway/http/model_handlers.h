// What can be asked of the model without running it: its description, its
// tokenizer, its chat template.
#ifndef BATON_GATEWAY_HTTP_MODEL_HANDLERS_H_
#define BATON_GATEWAY_HTTP_MODEL_HANDLERS_H_

#include "absl/status/statusor.h"
#include "gateway/http/json_reader.h"
#include "gateway/http/route_table.h"
#include "gateway/prompt/request_builder.h"

namespace baton::gateway {

// Thread-safe.
class ModelHandlers {
 public:
  // `models` must outlive this.
  explicit ModelHandlers(const ModelSource* models) : models_(models) {}

  // GET /v1/models: the served model and its aliases; empty while loading.
  void List(Call call) const;
  // GET /v1/models/{id}.
  void Get(Call call) const;
  // POST /tokenize {content, add_special, parse_special, with_pieces}
  //   → {tokens, count}
  void Tokenize(Call call) const;
  // POST /detokenize {tokens} → {content}
  void Detokenize(Call call) const;
  // POST /apply-template {messages, chat_template_kwargs} → {prompt}
  void ApplyTemplate(Call call) const;

 private:
  absl::StatusOr<Json> TryGet(const Call& call) const;
  absl::StatusOr<Json> TryTokenize(const Call& call) const;
  absl::StatusOr<Json> TryDetokenize(const Call& call) const;
  absl::StatusOr<Json> TryApplyTemplate(const Call& call) const;

  const ModelSource* const models_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_MODEL_HANDLERS_H_
