// 500 requests, 30 % of them cancelled at random moments: memory and all
// gauges are flat afterwards.
#include <gtest/gtest.h>

#include "tests/support/cluster_process.h"
#include "tests/support/token_client.h"

namespace baton {
namespace {

using testing_support::Await;
using testing_support::ClusterProcess;
using testing_support::Complete;
using testing_support::RandomPrompt;
using testing_support::TokenRequest;
using testing_support::ToProto;

// Cancels after `after` tokens (0 = as soon as the call is made).
void CompleteAndCancel(v1::CompletionService::Stub* stub,
                       const TokenRequest& request, size_t after) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + request.deadline));
  auto reader = stub->StreamCompletion(&context, ToProto(request));
  size_t seen = 0;
  if (after == 0) context.TryCancel();
  for (v1::GenerationEvent event; reader->Read(&event);) {
    if (event.has_delta()) seen += event.delta().tokens_size();
    if (seen >= after) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok() || status.error_code() == grpc::CANCELLED)
      << status.error_message();
}

TEST(SoakRequests, MemoryAndGaugesAreFlat) {
  ClusterProcess::Options options;
  options.model = std::string(BATON_MODELS_DIR) + "/tiny-llama-Q8_0.gguf";
  options.more = {"--threads",        "1",     "--kv-memory", "64MiB",
                  "--store-capacity", "16MiB", "--lease-ttl", "2s"};
  auto started = ClusterProcess::Start(options);
  ASSERT_TRUE(started.ok()) << started.status();
  ClusterProcess& cluster = **started;
  const std::vector<std::string> roles = {"gateway", "prefill", "decode",
                                          "kvstore"};
  const auto run = [&](int first, int count) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = first + t; i < first + count; i += 8) {
          TokenRequest request;
          request.prompt = RandomPrompt(i, 20 + (i * 37) % 300);
          request.max_tokens = 16;
          request.temperature = 1;
          request.ignore_eos = true;
          if (i % 10 < 3) {
            CompleteAndCancel(cluster.completions(), request, (i / 10) % 12);
          } else {
            const auto answer = Complete(cluster.completions(), request);
            EXPECT_TRUE(answer.status.ok()) << answer.status;
            EXPECT_EQ(answer.tokens.size(), 16u);
          }
        }
      });
    }
  };
  const auto resident = [&](const std::string& role) {
    return cluster.Metric(role, "process_resident_memory_bytes");
  };
  const auto returned = [&] {
    return cluster.Metric("kvstore", "baton_kv_store_leases") == 0 &&
           cluster.Metric("gateway", "baton_requests_inflight") == 0 &&
           cluster.Metric("gateway", "baton_requests_waiting") == 0 &&
           cluster.Metric("prefill", "baton_requests_running") == 0 &&
           cluster.Metric("decode", "baton_requests_running") == 0 &&
           cluster.Metric("decode", "baton_requests_waiting") == 0;
  };
  // Fills every pool once and meets the largest step: caches are full and
  // workspaces at their size by design.
  run(0, 750);
  ASSERT_TRUE(Await(returned, absl::Seconds(5)));
  std::map<std::string, double> before;
  for (const auto& role : roles) before[role] = resident(role);
  run(750, 500);
  ASSERT_TRUE(Await(returned, absl::Seconds(5)))
      << "leases " << cluster.Metric("kvstore", "baton_kv_store_leases")
      << " in flight " << cluster.Metric("gateway", "baton_requests_inflight");
  for (const auto& role : roles) {
    const double growth = resident(role) - before[role];
    std::printf("%s: %.1f MiB resident, grown by %.2f MiB\n", role.c_str(),
                resident(role) / 1048576, growth / 1048576);
    // A leak of one block of 64 KiB a request would be 31 MiB.
    EXPECT_LT(growth, 8.0 * 1048576) << role;
  }
}

}  // namespace
}  // namespace baton
