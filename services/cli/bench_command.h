// `baton bench`: drives a gateway in a closed loop (so many requests at once)
// or an open one (so many a second, whatever comes back) and reports what a
// client sees.
#ifndef BATON_SERVICES_CLI_BENCH_COMMAND_H_
#define BATON_SERVICES_CLI_BENCH_COMMAND_H_

#include "services/cli/signals.h"

namespace baton::cli {

// Returns the exit code: 0, 1 if a request failed, 78 (options).
int RunBench(int argc, const char* const* argv, Signals* signals);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BENCH_COMMAND_H_
