// baton-gateway: takes requests over gRPC and HTTP and hands them to workers.
#include <csignal>
#include <cstdio>

#include "gateway/gateway_options.h"
#include "gateway/gateway_service.h"
#include "services/base/log.h"
#include "services/config/option_table.h"

namespace {

void AddOptions(baton::gateway::GatewayOptions* options,
                baton::config::OptionTable* table) {
  table->AddString("listen", &options->listen, "gRPC address, host:port");
  table->AddString("http-listen", &options->http_listen,
                   "HTTP address, host:port");
  table->AddBool("insecure", &options->insecure,
                 "allow listeners beyond loopback; nothing is encrypted and "
                 "nobody is asked who they are");
  table->AddBool("grpc-reflection", &options->grpc_reflection,
                 "serve gRPC server reflection");
  table->AddStrings("worker", &options->workers,
                    "address of a worker, host:port or dns:///name; workers "
                    "may also register themselves");
  table->AddString("model", &options->model,
                   "GGUF file to take the tokenizer from before a worker is "
                   "there; the workers' own header wins if it differs",
                   'm');
  table->AddStrings("served-model-name", &options->served_model_names,
                    "name that clients use; the first is the one they see");
  table->AddUint("max-inflight", &options->max_inflight, 1, 65536,
                 "requests that run at once");
  table->AddUint("max-queued", &options->max_queued, 0, 65536,
                 "requests that wait; further ones are refused");
  table->AddUint("min-remote-prompt-tokens", &options->min_remote_prompt_tokens,
                 1, 1 << 30,
                 "prompts with fewer tokens to compute are left to the decode "
                 "worker");
  table->AddUint("threads", &options->threads, 1, 256,
                 "threads that run requests");
  table->AddDuration("request-timeout", &options->request_timeout,
                     "longest life of a request");
  table->AddDuration("queue-timeout", &options->queue_timeout,
                     "longest wait for admission");
  table->AddDuration("resume-timeout", &options->resume_timeout,
                     "longest wait of a request that lost its worker");
  table->AddDuration("stall-timeout", &options->stall_timeout,
                     "silence after which a worker that fails its probes is "
                     "left");
  table->AddDuration("hang-timeout", &options->hang_timeout,
                     "silence after which a worker that answers its probes is "
                     "left");
  table->AddDuration("drain-timeout", &options->drain_timeout,
                     "how long SIGTERM lets requests finish");
  table->AddDuration("poll-interval", &options->poll_interval,
                     "between worker probes");
  table->AddDuration("poll-timeout", &options->poll_timeout,
                     "of a worker probe");
  table->AddDuration("sse-ping-interval", &options->ping_interval,
                     "longest silence of an HTTP stream");
  table->AddChoice("log-level", &options->log_level,
                   {"debug", "info", "warning", "error"},
                   "least level that is logged");
  table->AddChoice("log-format", &options->log_format, {"text", "json"},
                   "form of log lines");
}

void ConfigureLogging(const baton::gateway::GatewayOptions& options) {
  baton::LogOptions log;
  log.process = "gateway";
  log.format = options.log_format == "json" ? baton::LogFormat::kJson
                                            : baton::LogFormat::kText;
  if (options.log_level == "debug") log.level = baton::LogLevel::kDebug;
  if (options.log_level == "warning") log.level = baton::LogLevel::kWarning;
  if (options.log_level == "error") log.level = baton::LogLevel::kError;
  baton::ConfigureLog(log);
}

// Before the first thread, so that all inherit it and only main takes them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t signals = BlockStopSignals();
  baton::gateway::GatewayOptions options;
  baton::config::OptionTable table(
      "baton-gateway", "gateway",
      "Takes requests over gRPC and HTTP and hands them to workers.");
  AddOptions(&options, &table);
  const auto outcome =
      table.Parse(argc, argv, baton::config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  if (absl::Status status = options.Check(); !status.ok()) {
    std::fprintf(stderr, "baton-gateway: %s\n",
                 std::string(status.message()).c_str());
    return baton::config::kExitConfig;
  }
  ConfigureLogging(options);
  auto gateway = baton::gateway::GatewayService::Start(options);
  if (!gateway.ok()) {
    std::fprintf(stderr, "baton-gateway: %s\n",
                 gateway.status().ToString().c_str());
    return 1;
  }
  std::printf("baton-gateway listening grpc=%s http=%s\n",
              (*gateway)->grpc_address().c_str(),
              (*gateway)->http_address().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  baton::Log(baton::LogLevel::kInfo, "draining",
             {{"signal", signal}, {"requests", "finishing"}});
  (*gateway)->Stop(options.drain_timeout);
  return 0;
}
