// `baton demo`: shows on this machine what Baton promises. A cluster of four
// processes answers two questions, the second on top of the first; then one
// worker alone answers the same, and the tokens must be equal.
#ifndef BATON_SERVICES_CLI_DEMO_COMMAND_H_
#define BATON_SERVICES_CLI_DEMO_COMMAND_H_

#include "services/cli/base/signals.h"

namespace baton::cli {

// Returns the exit code: 0, 1 (tokens differ, or something failed), 78, 130
// (interrupted).
int RunDemo(int argc, const char* const* argv, Signals* signals);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_DEMO_COMMAND_H_
