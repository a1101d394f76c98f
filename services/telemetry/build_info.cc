#include "services/telemetry/build_info.h"

#include "build_commit.h"

namespace baton::telemetry {

const char* BuildVersion() { return BATON_VERSION; }
const char* BuildCommit() { return BATON_COMMIT; }

}  // namespace baton::telemetry
