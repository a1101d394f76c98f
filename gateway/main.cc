// baton-gateway: takes requests over gRPC and HTTP and hands them to workers.
#include <cstdio>

#include "gateway/gateway_options.h"
#include "gateway/gateway_service.h"
#include "services/base/log.h"
#include "services/config/option_table.h"
#include "services/process/stop_signals.h"

int main(int argc, char** argv) {
  baton::process::StopSignals signals;
  baton::gateway::GatewayOptions options;
  baton::config::OptionTable table(
      "baton-gateway", "gateway",
      "Takes requests over gRPC and HTTP and hands them to workers.");
  options.Declare(&table);
  table.SetCheck([&options] { return options.process.Check(); });
  const auto outcome =
      table.Parse(argc, argv, baton::config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  options.process.SetUpLog("gateway");
  auto gateway = baton::gateway::GatewayService::Start(options);
  if (!gateway.ok()) {
    std::fprintf(stderr, "baton-gateway: %s\n",
                 gateway.status().ToString().c_str());
    return 1;
  }
  baton::process::PrintListening("baton-gateway", (*gateway)->grpc_address(),
                                 (*gateway)->http_address());
  signals.AwaitStop();
  baton::Log(baton::LogLevel::kInfo, "draining");
  (*gateway)->Stop(options.process.drain_timeout);
  return 0;
}
