#include <gtest/gtest.h>

#include "gateway/api/generation_codec.h"
#include "gateway/flow/worker_codec.h"
#include "gateway/gateway_options.h"
#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

TEST(GenerationCodecTest, UnsetScalarsStayUnset) {
  v1::CompletionRequest request;
  request.set_text("x");
  const auto input = CompletionFromProto(request, {});
  ASSERT_TRUE(input.ok());
  EXPECT_FALSE(input->parameters.sampling.temperature.has_value());
  EXPECT_FALSE(input->parameters.sampling.seed.has_value());
  EXPECT_FALSE(input->parameters.limits.max_tokens.has_value());
}

TEST(GenerationCodecTest, ZeroIsAValue) {
  v1::CompletionRequest request;
  request.mutable_tokens()->add_ids(3);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_seed(0);
  request.mutable_limits()->set_max_tokens(0);
  const auto input = CompletionFromProto(request, {});
  ASSERT_TRUE(input.ok());
  EXPECT_EQ(input->parameters.sampling.temperature, 0.0f);
  EXPECT_EQ(input->parameters.sampling.seed, 0u);
  EXPECT_EQ(input->parameters.limits.max_tokens, 0u);
}

TEST(GenerationCodecTest, CompletionWithoutPromptIsRefused) {
  const auto input = CompletionFromProto({}, {});
  EXPECT_TRUE(absl::IsInvalidArgument(input.status()));
  EXPECT_EQ(ErrorField(input.status()), "prompt");
}

TEST(GenerationCodecTest, ErrorsNameTheMessagesOwnFields) {
  const v1::ChatRequest request;
  const FieldNames names = ChatFromProto(request, {}).parameters.names;
  const auto* descriptor = request.GetDescriptor();
  EXPECT_NE(descriptor->FindFieldByName(names.template_kwargs), nullptr);
  EXPECT_NE(
      v1::GenerationLimits::descriptor()->FindFieldByName(names.max_tokens),
      nullptr);
  EXPECT_NE(
      v1::SamplingParams::descriptor()->FindFieldByName(names.top_logprobs),
      nullptr);
}

TEST(GenerationCodecTest, ReportKeepsItsSums) {
  GenerationReport report;
  report.prompt_tokens = 10;
  report.completion_tokens = 4;
  report.sources = {5, 2, 3};
  report.prefill = absl::Milliseconds(7);
  report.finish_reason = FinishReason::kLength;
  const v1::GenerationEnd end = EndToProto(report);
  EXPECT_EQ(end.usage().cached_tokens(), 5u);
  EXPECT_EQ(end.timings().cache_n() + end.timings().prompt_n(),
            end.usage().prompt_tokens());
  EXPECT_EQ(end.timings().predicted_n(), 4u);
  EXPECT_DOUBLE_EQ(end.timings().prompt_ms(), 7);
  EXPECT_EQ(end.finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST(WorkerCodecTest, BothWorkersAreToldTheSame) {
  auto spec = std::make_shared<GenerationSpec>();
  spec->request_id = RequestId("r");
  spec->prompt = {1, 2, 3};
  spec->sampling.temperature = 0.5f;
  spec->sampling.seed = 9;
  spec->limits.max_tokens = 7;
  spec->limits.stop_token_ids = {4};
  spec->cache_salt = "salt";
  spec->speculation.mode = "ngram";
  spec->speculation.max = 0;
  const WorkerRequest request{spec, HandoffId("h"), "layout"};
  const v1::PrefillRequest prefill = PrefillToProto(request);
  const v1::DecodeRequest reserve = ReserveToProto(request);
  const v1::DecodeReserve& decode = reserve.reserve();
  EXPECT_EQ(prefill.sampling().SerializeAsString(),
            decode.sampling().SerializeAsString());
  EXPECT_EQ(prefill.stop().SerializeAsString(),
            decode.stop().SerializeAsString());
  EXPECT_EQ(prefill.handoff_id(), decode.handoff_id());
  EXPECT_EQ(prefill.cache_salt(), "salt");
  EXPECT_EQ(prefill.layout_fingerprint(), "layout");
  EXPECT_EQ(decode.token_ids_size(), 3);
  EXPECT_EQ(decode.stop().max_tokens(), 7u);
  EXPECT_EQ(decode.speculation().mode(), "ngram");
  EXPECT_TRUE(decode.speculation().has_max());
  EXPECT_EQ(decode.speculation().max(), 0u);
}

TEST(WorkerCodecTest, ManifestPassesThroughUnchanged) {
  v1::PrefillEvent event;
  event.mutable_manifest()->set_handoff_id("h");
  event.mutable_manifest()->mutable_position()->set_kv_tokens(64);
  const auto seen = EventFromProto(event);
  ASSERT_TRUE(seen.has_value());
  const auto start = StartToProto({5}, std::get<ManifestReady>(*seen).manifest);
  ASSERT_TRUE(start.ok());
  EXPECT_EQ(start->start().manifest().SerializeAsString(),
            event.manifest().SerializeAsString());
  EXPECT_FALSE(StartToProto({5}, "\xFF\xFF no manifest").ok());
}

TEST(WorkerCodecTest, EmptyEventsAreNone) {
  EXPECT_FALSE(EventFromProto(v1::PrefillEvent()).has_value());
  EXPECT_FALSE(EventFromProto(v1::DecodeEvent()).has_value());
}

}  // namespace
}  // namespace baton::gateway
