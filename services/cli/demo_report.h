// The demo's report: two answers of the cluster beside those of one process.
// Pure.
#ifndef BATON_SERVICES_CLI_DEMO_REPORT_H_
#define BATON_SERVICES_CLI_DEMO_REPORT_H_

#include <string>
#include <vector>

#include "services/cli/client/answer.h"

namespace baton::cli {

// True if both have the same, non-empty tokens in the same order.
bool SameTokens(const Answer& a, const Answer& b);

// The first position at which the tokens differ; the shorter length if one
// starts with the other.
size_t FirstDifference(const Answer& a, const Answer& b);

// One column a question: `cluster[i]` beside `single[i]`.
std::string DemoReport(const std::vector<Answer>& cluster,
                       const std::vector<Answer>& single);
// The same as JSON, with the token ids.
std::string DemoJson(const std::vector<Answer>& cluster,
                     const std::vector<Answer>& single);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_DEMO_REPORT_H_
