#include "services/cli/client/http_chat_client.h"

#include <sys/eventfd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/base/clock.h"
#include "services/base/status_macros.h"
#include "services/cli/base/unique_fd.h"
#include "services/cli/client/address.h"
#include "services/cli/client/http_client.h"

namespace baton::cli {
namespace {

using Json = nlohmann::json;

std::string ToBody(const Question& question) {
  Json body = {{"model", question.model},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"return_progress", true},
               {"timings_per_token", true}};
  body["messages"] = Json::array();
  for (const Turn& turn : question.turns) {
    body["messages"].push_back(
        {{"role", turn.role}, {"content", turn.content}});
  }
  if (question.model.empty()) body.erase("model");
  if (question.max_tokens) body["max_tokens"] = *question.max_tokens;
  if (question.temperature) body["temperature"] = *question.temperature;
  if (question.seed) body["seed"] = *question.seed;
  if (question.ignore_eos) body["ignore_eos"] = true;
  // Bytes that are not UTF-8 would make dump throw.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
void TakeNumber(const Json& object, const char* name, T* target) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_number()) *target = found->get<T>();
}

Json Member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() ? *found : Json();
}

void TakeUsage(const Json& chunk, Answer* answer) {
  const Json usage = Member(chunk, "usage");
  if (usage.is_object()) {
    TakeNumber(usage, "prompt_tokens", &answer->prompt_tokens);
    TakeNumber(usage, "completion_tokens", &answer->completion_tokens);
    const Json details = Member(usage, "prompt_tokens_details");
    if (details.is_object()) {
      TakeNumber(details, "cached_tokens", &answer->cached_tokens);
    }
  }
  const Json timings = Member(chunk, "timings");
  if (timings.is_object()) {
    TakeNumber(timings, "prompt_n", &answer->prompt_n);
    TakeNumber(timings, "prompt_ms", &answer->prompt_ms);
    TakeNumber(timings, "predicted_n", &answer->predicted_n);
    TakeNumber(timings, "predicted_ms", &answer->predicted_ms);
    TakeNumber(timings, "time_to_first_token_ms", &answer->ttft_ms);
    TakeNumber(timings, "queue_ms", &answer->queue_ms);
  }
}

void TakeText(const Json& object, const char* name, std::string* target) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_string()) {
    *target = found->get<std::string>();
  }
}

// What Baton says beyond OpenAI's API: who computed the answer.
void TakeCluster(const Json& chunk, Answer* answer) {
  const Json cluster = Member(chunk, "baton");
  if (!cluster.is_object()) return;
  TakeText(cluster, "prefill_worker", &answer->prefill_worker);
  TakeText(cluster, "decode_worker", &answer->decode_worker);
  TakeNumber(cluster, "resumes", &answer->resumes);
  TakeNumber(cluster, "handoff_ms", &answer->handoff_ms);
  TakeNumber(cluster, "handoff_bytes", &answer->handoff_bytes);
  const Json sources = Member(cluster, "sources");
  if (!sources.is_object()) return;
  TakeNumber(sources, "local_cache", &answer->local_cache_tokens);
  TakeNumber(sources, "kv_store", &answer->kv_store_tokens);
}

}  // namespace

absl::Status TakeChunk(const std::string& payload, const AnswerEvents& events,
                       Answer* answer) {
  const Json chunk = Json::parse(payload, nullptr, false);
  if (!chunk.is_object()) {
    return absl::DataLossError("a stream event is not a JSON object");
  }
  const Json message = Member(Member(chunk, "error"), "message");
  if (message.is_string()) {
    return absl::UnavailableError(message.get<std::string>());
  }
  TakeUsage(chunk, answer);
  TakeCluster(chunk, answer);
  const Json progress = Member(chunk, "prompt_progress");
  if (progress.is_object() && events.on_progress) {
    uint32_t processed = 0, total = 0;
    TakeNumber(progress, "processed", &processed);
    TakeNumber(progress, "total", &total);
    events.on_progress(processed, total);
  }
  const Json choices = Member(chunk, "choices");
  if (!choices.is_array() || choices.empty()) return absl::OkStatus();
  const Json finish = Member(choices[0], "finish_reason");
  if (finish.is_string()) answer->finish_reason = finish.get<std::string>();
  const Json content = Member(Member(choices[0], "delta"), "content");
  if (content.is_string() && !content.get_ref<const std::string&>().empty()) {
    answer->text.append(content.get_ref<const std::string&>());
    if (events.on_text) events.on_text(content.get<std::string>(), 1);
  }
  return absl::OkStatus();
}

namespace {

absl::Status ErrorOf(const HttpResponse& response) {
  const Json message = Member(
      Member(Json::parse(response.body, nullptr, false), "error"), "message");
  const std::string text = absl::StrCat(
      "HTTP ", response.status, ": ",
      message.is_string() ? message.get<std::string>() : response.body);
  if (response.status == 429) return absl::ResourceExhaustedError(text);
  if (response.status == 503) return absl::UnavailableError(text);
  if (response.status < 500) return absl::InvalidArgumentError(text);
  return absl::InternalError(text);
}

class HttpChatClient final : public ChatSource {
 public:
  HttpChatClient(const std::string& url, absl::Duration silence)
      : url_(url),
        silence_(silence),
        cancel_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  absl::StatusOr<Answer> Ask(const Question& question,
                             const AnswerEvents& events) override {
    auto answer = AskOnce(question, events);
    if (absl::IsCancelled(answer.status())) {
      // Until now the descriptor says that an Ask is to end.
      eventfd_t ignored = 0;
      eventfd_read(cancel_.get(), &ignored);
    }
    return answer;
  }

  void Cancel() override { eventfd_write(cancel_.get(), 1); }

 private:
  absl::StatusOr<Answer> AskOnce(const Question& question,
                                 const AnswerEvents& events) {
    Answer answer;
    if (question.seed) answer.seed = *question.seed;
    absl::Status fault;
    bool done = false;
    SseReader reader;
    const SystemClock clock;
    const absl::Duration start = clock.Monotonic();
    double first_ms = 0;
    const auto on_piece = [&](absl::string_view piece) {
      for (const std::string& payload : reader.Feed(piece)) {
        if (payload == "[DONE]") {
          done = true;
        } else if (fault.ok()) {
          fault = TakeChunk(payload, events, &answer);
        }
        if (first_ms == 0 && !answer.text.empty()) {
          first_ms = absl::ToDoubleMilliseconds(clock.Monotonic() - start);
        }
      }
      return fault.ok() && !done;
    };
    const auto response =
        HttpPostJson(url_, "/v1/chat/completions", ToBody(question), silence_,
                     on_piece, cancel_.get());
    if (absl::IsUnavailable(response.status())) return NoGateway(url_);
    BATON_RETURN_IF_ERROR(response.status());
    if (response->status != 200) return ErrorOf(*response);
    BATON_RETURN_IF_ERROR(fault);
    if (!done) return absl::DataLossError("the stream has no end");
    // As seen from here, where the server does not say.
    if (answer.ttft_ms == 0) answer.ttft_ms = first_ms;
    return answer;
  }

  const std::string url_;
  const absl::Duration silence_;
  const UniqueFd cancel_;  // readable = an Ask is to end
};

}  // namespace

std::unique_ptr<ChatSource> MakeHttpChatClient(const std::string& url,
                                               absl::Duration silence) {
  return std::make_unique<HttpChatClient>(url, silence);
}

std::vector<std::string> SseReader::Feed(absl::string_view piece) {
  std::vector<std::string> payloads;
  for (char c : piece) {
    if (c != '\n') {
      line_.push_back(c);
      continue;
    }
    std::string line = std::exchange(line_, {});
    if (absl::EndsWith(line, "\r")) line.pop_back();
    if (line.empty()) {
      if (has_payload_) payloads.push_back(std::exchange(payload_, {}));
      has_payload_ = false;
    } else if (absl::StartsWith(line, "data:")) {
      if (has_payload_) payload_.push_back('\n');
      has_payload_ = true;
      absl::string_view value = absl::StripPrefix(line, "data:");
      absl::ConsumePrefix(&value, " ");
      absl::StrAppend(&payload_, value);
    }
  }
  return payloads;
}

}  // namespace baton::cli
