#include "services/process/process_options.h"

#include <gtest/gtest.h>

namespace baton::process {
namespace {

TEST(ProcessOptionsTest, OpenListenersNeedInsecure) {
  ProcessOptions options{.grpc = "127.0.0.1:1", .http = "localhost:2"};
  EXPECT_TRUE(options.Check().ok());
  options.http = "0.0.0.0:8080";
  EXPECT_TRUE(absl::IsInvalidArgument(options.Check()));
  options.insecure = true;
  EXPECT_TRUE(options.Check().ok());
}

TEST(ProcessOptionsTest, RefusesWhatIsNoAddress) {
  for (const char* address :
       {"", "127.0.0.1", ":80", "localhost:", "localhost:http",
        "localhost:65536", "127.0.0.1:-1", "127.0.0.1:+1", "::1:80"}) {
    ProcessOptions options{.grpc = "127.0.0.1:1", .http = address};
    options.insecure = true;
    EXPECT_TRUE(absl::IsInvalidArgument(options.Check())) << address;
    EXPECT_FALSE(IsAddress(address)) << address;
  }
  for (const char* address :
       {"127.0.0.1:0", "[::1]:65535", "localhost:80", "0.0.0.0:1"}) {
    EXPECT_TRUE(IsAddress(address)) << address;
  }
}

TEST(ProcessOptionsTest, KnowsLoopbackAddresses) {
  for (const char* address :
       {"127.0.0.1:0", "127.9.9.9:80", "localhost:1", "[::1]:9300"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:9300", "10.0.0.1:5",
                              "localhost.example:1", ":80", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace baton::process
