// What this program was built from. Constant; thread-safe.
#ifndef BATON_SERVICES_TELEMETRY_BUILD_INFO_H_
#define BATON_SERVICES_TELEMETRY_BUILD_INFO_H_

namespace baton::telemetry {

const char* BuildVersion();  // "0.1.0"
// The commit's short hash; empty if built outside a checkout.
const char* BuildCommit();

}  // namespace baton::telemetry

#endif  // BATON_SERVICES_TELEMETRY_BUILD_INFO_H_
