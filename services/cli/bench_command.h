// `baton bench`: drives a gateway in a closed loop (so many requests at once)
// or an open one (so many a second, whatever comes back) and reports what a
// client sees.
#ifndef BATON_SERVICES_CLI_BENCH_COMMAND_H_
#define BATON_SERVICES_CLI_BENCH_COMMAND_H_

#include "services/cli/base/signals.h"

namespace baton::cli {

// Returns the exit code: 0, 1 (a request failed, or a file), 78 (options), 130
// (interrupted).
int RunBench(int argc, const char* const* argv, Signals* signals);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BENCH_COMMAND_H_
