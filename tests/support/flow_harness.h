// Drives a RequestFlow by hand and checks, at every step, what must always
// hold: one terminal action, nothing after it, no stream left open at the end,
// no action on a stream that was never opened or is closed.
#ifndef BATON_TESTS_SUPPORT_FLOW_HARNESS_H_
#define BATON_TESTS_SUPPORT_FLOW_HARNESS_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/flow/request_flow.h"
#include "tests/support/cluster_builder.h"
#include "tests/support/fake_tokenizer.h"

namespace baton::testing_support {

inline gateway::GenerationSpec MakeSpec(const std::string& prompt,
                                        uint32_t max_tokens) {
  gateway::GenerationSpec spec;
  spec.request_id = RequestId("r");
  spec.api = "grpc";
  spec.prompt = FakeTokenizer().Encode(prompt, false, false);
  spec.sampling.seed = 1;
  spec.limits.max_tokens = max_tokens;
  spec.arrival = absl::Seconds(100);
  spec.deadline = absl::Seconds(700);
  return spec;
}

class FlowHarness {
 public:
  struct Stream {
    std::string worker;
    bool decode = false;
    bool open = true;    // until the flow or the worker ends it
    bool ended = false;  // by the worker
    std::optional<gateway::StartDecode> start;
    gateway::WorkerRequest request;
  };

  FlowHarness(gateway::GenerationSpec spec,
              std::vector<gateway::WorkerSnapshot> workers,
              gateway::RequestFlow::Options options = {})
      : cluster(MakeCluster(std::move(workers))),
        prompt_(static_cast<uint32_t>(spec.prompt.size())),
        deadline_(spec.deadline),
        now(spec.arrival),
        flow(options,
             std::make_shared<const gateway::GenerationSpec>(std::move(spec)),
             "ho", &router_, std::make_shared<FakeTokenizer>()) {}

  gateway::FlowContext Context() const { return {now, &cluster}; }
  gateway::WorkerSnapshot& Worker(const std::string& id) {
    for (auto& worker : cluster.workers) {
      if (worker.id == WorkerId(id)) return worker;
    }
    ADD_FAILURE() << "no worker " << id;
    return cluster.workers.front();
  }

  void Admit() { Take(flow.OnAdmitted(Context())); }
  void Cancel() { Take(flow.OnCancel()); }
  void Tick(absl::Duration later) {
    now += later;
    Take(flow.OnTick(Context()));
  }
  // Ticks when the flow asks for it, as the runner does.
  void TickAtWake() {
    now = std::max(now, flow.NextWake());
    Take(flow.OnTick(Context()));
  }
  void Event(gateway::StreamNumber stream, gateway::WorkerEvent event) {
    Stream& from = streams[stream];
    from.ended =
        from.ended || std::holds_alternative<gateway::WorkerClosed>(event);
    if (const auto* closed = std::get_if<gateway::WorkerClosed>(&event)) {
      last_closed_ = closed->status;
    }
    Take(flow.OnWorkerEvent(stream, event, Context()));
    if (from.ended) from.open = false;
  }

  // Events of the newest decode or prefill stream.
  void Reserved(uint32_t held = 0) {
    Event(decode(), gateway::DecodeReservedEvent{Epoch(1), held, "layout"});
  }
  void First(char c, std::optional<gateway::FinishReason> finish = {}) {
    gateway::FirstTokenReady first;
    first.token = Token(c, 0);
    first.finish_reason = finish;
    first.sources = {prompt_, 0, 0};
    first.prefill = absl::Milliseconds(40);
    Event(prefill(), first);
  }
  void Manifest() { Event(prefill(), gateway::ManifestReady{"manifest"}); }
  void Started(gateway::PromptSources sources = {}) {
    gateway::DecodeStartedEvent started;
    started.sources = sources;
    Event(decode(), started);
  }
  // The next tokens of the answer, as positions say.
  void Tokens(const std::string& text) {
    gateway::DecodeTokensEvent event;
    for (char c : text) {
      event.tokens.push_back(
          Token(c, static_cast<uint32_t>(tokens.size() + event.tokens.size())));
    }
    Event(decode(), event);
  }
  void EndToken() {
    gateway::DecodeTokensEvent event;
    event.tokens.push_back(Token(0, static_cast<uint32_t>(tokens.size())));
    event.tokens[0].token.token = kFakeEnd;
    Event(decode(), event);
  }
  void Finished(gateway::FinishReason reason) {
    gateway::DecodeFinishedEvent finished;
    finished.reason = reason;
    finished.prefill = absl::Milliseconds(70);
    Event(decode(), finished);
  }
  void LoseDecode(absl::Status status = absl::UnavailableError("gone")) {
    Event(decode(), gateway::WorkerClosed{status});
  }
  void LosePrefill(absl::Status status = absl::UnavailableError("gone")) {
    Event(prefill(), gateway::WorkerClosed{status});
  }
  gateway::PositionedToken Token(char c, uint32_t index) const {
    gateway::PositionedToken token;
    token.token.token = static_cast<unsigned char>(c);
    token.position = prompt_ + index;
    return token;
  }

  gateway::StreamNumber decode() const { return Newest(true); }
  gateway::StreamNumber prefill() const { return Newest(false); }
  const Stream& at(gateway::StreamNumber number) const {
    return streams.at(number);
  }
  const std::string& decode_worker() const { return at(decode()).worker; }
  uint32_t open_streams() const {
    uint32_t count = 0;
    for (const auto& [number, stream] : streams) {
      count += stream.open && !stream.ended;
    }
    return count;
  }
  std::string tokens_text() const {
    std::string text;
    for (TokenId token : tokens) {
      if (token < 256) text.push_back(static_cast<char>(token));
    }
    return text;
  }

  gateway::ClusterSnapshot cluster;

 private:
  const uint32_t prompt_;
  const absl::Duration deadline_;

 public:
  absl::Duration now;
  std::map<gateway::StreamNumber, Stream> streams;
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<std::string> suspects;
  std::vector<std::string> retries;
  uint32_t full = 0;  // of the retries: the worker had no place
  uint32_t progress = 0;
  std::optional<gateway::GenerationReport> report;
  std::optional<absl::Status> error;

 private:
  gateway::StreamNumber Newest(bool decode) const {
    for (auto it = streams.rbegin(); it != streams.rend(); ++it) {
      if (it->second.decode == decode) return it->first;
    }
    return 0;
  }
  Stream* Open(gateway::StreamNumber number) {
    auto it = streams.find(number);
    if (it == streams.end() || !it->second.open) {
      ADD_FAILURE() << "action on stream " << number << ", which is not open";
      return nullptr;
    }
    return &it->second;
  }
  void Take(const gateway::FlowActions& actions) {
    for (const gateway::FlowAction& action : actions) {
      EXPECT_FALSE(report.has_value() || error.has_value())
          << "an action after the terminal one";
      std::visit([this](const auto& one) { On(one); }, action);
    }
    EXPECT_EQ(flow.ended(), report.has_value() || error.has_value());
    if (flow.ended()) {
      EXPECT_EQ(open_streams(), 0u) << "a stream outlives the request";
      EXPECT_EQ(flow.NextWake(), absl::InfiniteDuration());
    }
  }
  void On(const gateway::OpenDecode& a) {
    streams[a.stream] = {a.worker.id.value(), true, true, false, {}, a.request};
  }
  void On(const gateway::OpenPrefill& a) {
    streams[a.stream] = {
        a.worker.id.value(), false, true, false, {}, a.request};
  }
  void On(const gateway::StartDecode& a) {
    Stream* stream = Open(a.stream);
    if (stream == nullptr) return;
    EXPECT_FALSE(stream->ended);
    EXPECT_FALSE(stream->start.has_value()) << "started twice";
    EXPECT_EQ(a.committed, tokens) << "not all that the client has";
    stream->start = a;
  }
  void On(const gateway::CloseStream& a) {
    if (Stream* stream = Open(a.stream)) stream->open = false;
  }
  void On(const gateway::EmitProgress&) { ++progress; }
  void On(const gateway::EmitText& a) {
    text += a.text;
    for (const auto& token : a.tokens) tokens.push_back(token.token);
  }
  void On(const gateway::EndAnswer& a) { report = a.report; }
  void On(const gateway::FailAnswer& a) { error = a.status; }
  void On(const gateway::SuspectWorker& a) {
    EXPECT_TRUE(absl::IsUnavailable(last_closed_) ||
                absl::IsUnknown(last_closed_))
        << "suspected after " << last_closed_;
    EXPECT_LT(now, deadline_) << "suspected for the request's own deadline";
    suspects.push_back(a.worker.value());
  }
  void On(const gateway::CountRetry& a) {
    EXPECT_LT(now, deadline_) << "work sent again with no time left";
    retries.push_back(a.phase);
    full += a.full;
  }

  absl::Status last_closed_;  // of any worker stream

  const gateway::Router router_{{1}};

 public:
  gateway::RequestFlow flow;
};

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_FLOW_HARNESS_H_
