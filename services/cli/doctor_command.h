// `baton doctor`: says in a few lines whether Baton can run here, and what to
// change if not.
#ifndef BATON_SERVICES_CLI_DOCTOR_COMMAND_H_
#define BATON_SERVICES_CLI_DOCTOR_COMMAND_H_

namespace baton::cli {

// Returns the exit code: 0, 1 if a check failed, 78 (options).
int RunDoctor(int argc, const char* const* argv);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_DOCTOR_COMMAND_H_
