// Early returns on errors, and the check for invariants that the same file
// proves. Never use BATON_CHECK for anything that a peer, a file or a
// configuration can cause.
#ifndef BATON_SERVICES_BASE_STATUS_MACROS_H_
#define BATON_SERVICES_BASE_STATUS_MACROS_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define BATON_RETURN_IF_ERROR(expression)                               \
  do {                                                                  \
    if (absl::Status baton_status = (expression); !baton_status.ok()) { \
      return baton_status;                                              \
    }                                                                   \
  } while (false)

#define BATON_CONCAT_INNER(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_INNER(a, b)

// BATON_ASSIGN_OR_RETURN(auto value, Function());
#define BATON_ASSIGN_OR_RETURN(target, expression)                        \
  BATON_ASSIGN_OR_RETURN_INNER(BATON_CONCAT(baton_or_, __LINE__), target, \
                               expression)
#define BATON_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                    \
  if (!temporary.ok()) return std::move(temporary).status();        \
  target = std::move(temporary).value()

#define BATON_CHECK(condition, why)                                    \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::fprintf(stderr, "%s:%d: check failed: %s (%s)\n", __FILE__, \
                   __LINE__, #condition, why);                         \
      std::abort();                                                    \
    }                                                                  \
  } while (false)

#endif  // BATON_SERVICES_BASE_STATUS_MACROS_H_
