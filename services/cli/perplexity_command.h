// `baton perplexity`: how well a model file predicts a text, computed in this
// process, and how far it is from another file on the same text.
#ifndef BATON_SERVICES_CLI_PERPLEXITY_COMMAND_H_
#define BATON_SERVICES_CLI_PERPLEXITY_COMMAND_H_

#include "services/cli/base/signals.h"

namespace baton::cli {

// Returns the exit code: 0, 1 (a file that cannot be used), 78 (options), 130
// (interrupted).
int RunPerplexity(int argc, const char* const* argv, Signals* signals);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_PERPLEXITY_COMMAND_H_
