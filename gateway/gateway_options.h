// What the command line of baton-gateway sets, with its defaults.
#ifndef BATON_GATEWAY_GATEWAY_OPTIONS_H_
#define BATON_GATEWAY_GATEWAY_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/config/option_table.h"
#include "services/process/process_options.h"

namespace baton::gateway {

struct GatewayOptions {
  process::ProcessOptions process{.grpc = "127.0.0.1:9300",
                                  .http = "127.0.0.1:8080",
                                  .drain_timeout = absl::Seconds(60)};
  bool grpc_reflection = true;
  std::vector<std::string> workers;
  std::string model;
  std::vector<std::string> served_model_names;
  uint32_t max_inflight = 64;
  uint32_t max_queued = 256;
  uint32_t min_remote_prompt_tokens = 1;
  uint32_t threads = 2;
  absl::Duration request_timeout = absl::Seconds(600);
  absl::Duration queue_timeout = absl::Seconds(60);
  absl::Duration resume_timeout = absl::Seconds(30);
  absl::Duration stall_timeout = absl::Seconds(20);
  absl::Duration hang_timeout = absl::Seconds(120);
  absl::Duration poll_interval = absl::Milliseconds(250);
  absl::Duration poll_timeout = absl::Seconds(2);
  absl::Duration ping_interval = absl::Seconds(10);

  void Declare(config::OptionTable* table);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_GATEWAY_OPTIONS_H_
