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
