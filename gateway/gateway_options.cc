#include "gateway/gateway_options.h"

namespace baton::gateway {

void GatewayOptions::Declare(config::OptionTable* table) {
  process.Declare(table);
  table->AddBool("grpc-reflection", &grpc_reflection,
                 "serve gRPC server reflection");
  table->AddStrings("worker", &workers,
                    "address of a worker, host:port or dns:///name; workers "
                    "may also register themselves");
  table->AddString("model", &model,
                   "GGUF file to take the tokenizer from before a worker is "
                   "there; the workers' own header wins if it differs",
                   'm');
  table->AddStrings("served-model-name", &served_model_names,
                    "name that clients use; the first is the one they see");
  table->AddUint("max-inflight", &max_inflight, 1, 65536,
                 "requests that run at once");
  table->AddUint("max-queued", &max_queued, 0, 65536,
                 "requests that wait; further ones are refused");
  table->AddUint("min-remote-prompt-tokens", &min_remote_prompt_tokens, 1,
                 1 << 30,
                 "prompts with fewer tokens to compute are left to the decode "
                 "worker");
  table->AddUint("threads", &threads, 1, 256, "threads that run requests");
  table->AddDuration("request-timeout", &request_timeout,
                     "longest life of a request");
  table->AddDuration("queue-timeout", &queue_timeout,
                     "longest wait for admission");
  table->AddDuration("resume-timeout", &resume_timeout,
                     "longest wait of a request that lost its worker");
  table->AddDuration("stall-timeout", &stall_timeout,
                     "silence after which a worker that fails its probes is "
                     "left");
  table->AddDuration("hang-timeout", &hang_timeout,
                     "silence after which a worker that answers its probes is "
                     "left");
  table->AddDuration("poll-interval", &poll_interval, "between worker probes");
  table->AddDuration("poll-timeout", &poll_timeout, "of a worker probe");
  table->AddDuration("sse-ping-interval", &ping_interval,
                     "longest silence of an HTTP stream");
}

}  // namespace baton::gateway
