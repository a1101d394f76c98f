// The listener's limits and the odd clients that they are for; and the
// metrics listener of workers and the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "services/base/mutex.h"
#include "services/http/listener.h"
#include "services/telemetry/metrics_http.h"
#include "tests/support/http_client.h"

namespace baton::http {
namespace {

using ::testing::HasSubstr;

// Echoes bodies; "/hold" keeps its writer for the test, "/drop" drops it.
class EchoHandler final : public Handler {
 public:
  void OnRequest(Request request,
                 std::shared_ptr<ResponseWriter> writer) override {
    if (request.path == "/drop") return;
    if (request.path == "/hold") {
      writer->OnClosed([this] {
        MutexLock lock(&mutex_);
        ++closed_;
        changed_.SignalAll();
      });
      MutexLock lock(&mutex_);
      held_.push_back(std::move(writer));
      changed_.SignalAll();
      return;
    }
    Response response;
    response.body = request.method + " " + request.path + " " +
                    std::to_string(request.body.size());
    writer->Send(std::move(response));
  }
  void OnRejected(int status) override {
    MutexLock lock(&mutex_);
    rejected_.push_back(status);
  }

  // The newest, once `count` have been held.
  std::shared_ptr<ResponseWriter> AwaitHeld(size_t count = 1) {
    MutexLock lock(&mutex_);
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (held_.size() < count && absl::Now() < end) {
      changed_.WaitWithTimeout(&mutex_, end - absl::Now());
    }
    return held_.size() < count ? nullptr : held_.back();
  }
  bool AwaitClosed() {
    MutexLock lock(&mutex_);
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (closed_ == 0 && absl::Now() < end) {
      changed_.WaitWithTimeout(&mutex_, end - absl::Now());
    }
    return closed_ == 1;
  }
  std::vector<int> rejected() {
    MutexLock lock(&mutex_);
    return rejected_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<ResponseWriter>> held_ ABSL_GUARDED_BY(mutex_);
  int closed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> rejected_ ABSL_GUARDED_BY(mutex_);
};

class HttpListener : public ::testing::Test {
 protected:
  void StartListener() {
    auto listener = Listener::Start(options_, &handler_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  EchoHandler handler_;
  Listener::Options options_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(HttpListener, KeepsAConnectionForManyRequests) {
  StartListener();
  Client client(listener_->port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.Send(PostRequest("/a?q=1", "12345")));
    EXPECT_EQ(client.ReadResponse().body, "POST /a 5");
  }
}

TEST_F(HttpListener, AnswersPipelinedRequestsInOrder) {
  StartListener();
  Client client(listener_->port());
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += PostRequest("/p" + std::to_string(i), std::string(300, 'x'));
  }
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.ReadResponse().body,
              "POST /p" + std::to_string(i) + " 300");
  }
}

TEST_F(HttpListener, ClosesWhenTheClientAsks) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/", "connection: close\r\n"));
  EXPECT_EQ(client.ReadResponse().headers.at("connection"), "close");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpListener, Answers413ToA40MegabyteBodyAndTheClientReadsIt) {
  StartListener();
  for (const bool chunked : {false, true}) {
    Client client(listener_->port());
    if (chunked) {
      client.Send(
          "POST / HTTP/1.1\r\nhost: a\r\n"
          "transfer-encoding: chunked\r\n\r\n");
      const std::string piece =
          "100000\r\n" + std::string(1 << 20, 'x') + "\r\n";
      for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.Send(piece));
    } else {
      ASSERT_TRUE(client.Send(PostRequest("/", std::string(40 << 20, 'x'))));
    }
    const ClientResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 413) << chunked;
    EXPECT_THAT(response.body, HasSubstr("\"code\":\"request_too_large\""));
  }
  EXPECT_THAT(handler_.rejected(), ::testing::ElementsAre(413, 413));
}

TEST_F(HttpListener, TakesABodyAtTheLimitAndSays100Continue) {
  options_.limits.max_body_bytes = 100000;
  StartListener();
  Client client(listener_->port());
  client.Send(
      "POST /b HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"
      "content-length: 100000\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send(std::string(100000, 'x'));
  EXPECT_EQ(client.ReadResponse().body, "POST /b 100000");
}

TEST_F(HttpListener, Answers431ToALongHeader) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/", "x: " + std::string(20 << 10, 'a') + "\r\n"));
  EXPECT_EQ(client.ReadResponse().status, 431);
}

// To the byte, and however the bytes arrive.
TEST_F(HttpListener, CountsTheHeaderExactly) {
  options_.limits.max_header_bytes = 1000;
  StartListener();
  const auto get = [](size_t size) {
    const std::string empty = GetRequest("/", "x: \r\n");
    return GetRequest("/",
                      "x: " + std::string(size - empty.size(), 'a') + "\r\n");
  };
  for (const size_t piece : {1, 7, 400, 2000}) {
    for (const size_t over : {0, 1, 10, 30}) {
      Client client(listener_->port());
      const std::string request = get(1000 + over);
      ASSERT_EQ(request.size(), 1000 + over);
      for (size_t at = 0; at < request.size(); at += piece) {
        client.Send(request.substr(at, piece));
      }
      EXPECT_EQ(client.ReadResponse().status, over == 0 ? 200 : 431)
          << over << " too many, in pieces of " << piece;
    }
  }
}

TEST_F(HttpListener, Answers400ToWhatIsNotHttp) {
  StartListener();
  for (const char* bytes :
       {"\x16\x03\x01\x02\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\n"
        "transfer-encoding: chunked\r\n\r\n"}) {
    Client client(listener_->port());
    client.Send(bytes);
    EXPECT_EQ(client.ReadResponse().status, 400) << bytes;
  }
}

struct OddHead {
  const char* head;  // without the empty line
  int status;
};

TEST_F(HttpListener, RefusesHeadsThatTwoReadersCouldTakeInTwoWays) {
  StartListener();
  const std::string post = "POST /a HTTP/1.1\r\nhost: a\r\n";
  const OddHead cases[] = {
      {"transfer-encoding: gzip\r\n", 400},
      {"transfer-encoding: identity\r\n", 400},
      {"transfer-encoding: chunked, gzip\r\n", 400},
      {"transfer-encoding: chunked, identity\r\n", 400},
      {"transfer-encoding: chunked, chunked\r\n", 400},
      {"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", 400},
      {"transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n", 400},
      {"transfer-encoding: xchunked\r\n", 400},
      {"transfer-encoding: chunked;q=1\r\n", 400},
      {"transfer-encoding: \"chunked\"\r\n", 400},
      {"transfer-encoding: \x0b"
       "chunked\r\n",
       400},
      {"transfer-encoding:\r\n", 400},
      {"transfer-encoding : chunked\r\n", 400},
      {"transfer-encoding: gzip, chunked\r\n", 501},
      {"transfer-encoding: identity, chunked\r\n", 501},
      {"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n", 501},
      {"transfer-encoding: chunked\r\ncontent-length: 4\r\n", 400},
      {"content-length: 4\r\ntransfer-encoding: chunked\r\n", 400},
      {"transfer-encoding: gzip\r\ncontent-length: 4\r\n", 400},
      {"content-length: 4\r\ntransfer-encoding: identity\r\n", 400},
      {"content-length: 4\r\ncontent-length: 5\r\n", 400},
      {"content-length: 4, 5\r\n", 400},
      {"content-length: +4\r\n", 400},
      {"content-length: -4\r\n", 400},
      {"content-length: 0x4\r\n", 400},
      {"content-length:\r\n", 400},
      {"content-length: 99999999999999999999\r\n", 400},
      {"host: b\r\n", 400},
  };
  for (const OddHead& odd : cases) {
    Client client(listener_->port());
    // If any of it were a request without a body, this would be a second one.
    client.Send(post + odd.head + "\r\nGET /version HTTP/1.1\r\n\r\n");
    const ClientResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, odd.status) << odd.head;
    EXPECT_EQ(response.headers.at("connection"), "close") << odd.head;
    client.CloseSending();
    EXPECT_TRUE(client.ReadsEnd()) << odd.head;
  }
  Client old(listener_->port());
  old.Send(
      "POST /a HTTP/1.0\r\nconnection: keep-alive\r\n"
      "transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(old.ReadResponse().status, 400);
  old.CloseSending();
  EXPECT_TRUE(old.ReadsEnd());
}

TEST_F(HttpListener, TakesTheFramingThatIsPlain) {
  StartListener();
  Client client(listener_->port());
  for (const char* rest :
       {"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
        "Transfer-Encoding: Chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
        "content-length: 4\r\n\r\nabcd",
        "content-length: 4\r\ncontent-length: 4\r\n\r\nabcd",
        "content-encoding: identity\r\ncontent-length: 4\r\n\r\nabcd"}) {
    client.Send(absl::StrCat("POST /a HTTP/1.1\r\nhost: a\r\n", rest));
    EXPECT_EQ(client.ReadResponse().body, "POST /a 4") << rest;
  }
}

TEST_F(HttpListener, RefusesExpectationsAndCodingsThatItDoesNotServe) {
  StartListener();
  const OddHead cases[] = {
      {"expect: foo\r\n", 417},
      {"expect: 100-continue, foo\r\n", 417},
      {"expect: 100-continue\r\nexpect: foo\r\n", 417},
      {"content-encoding: gzip\r\n", 415},
      {"content-encoding: identity, br\r\n", 415},
  };
  for (const OddHead& odd : cases) {
    Client client(listener_->port());
    client.Send(PostRequest("/a", "abcd", odd.head));
    EXPECT_EQ(client.ReadResponse().status, odd.status) << odd.head;
  }
}

TEST_F(HttpListener, RefusesWhatAWebPageCanPostWithoutAPreflight) {
  StartListener();
  const OddHead cases[] = {
      {"origin: http://evil.test\r\n", 415},
      {"origin: null\r\ncontent-type: text/plain\r\n", 415},
      {"origin: http://evil.test\r\n"
       "content-type: text/plain; application/json\r\n",
       415},
      {"origin: http://evil.test\r\n"
       "content-type: application/x-www-form-urlencoded\r\n",
       415},
      {"origin: http://evil.test\r\n"
       "content-type: multipart/form-data; boundary=x\r\n",
       415},
      {"sec-fetch-site: cross-site\r\ncontent-type: text/plain\r\n", 415},
      {"origin: http://a.test\r\ncontent-type: application/json\r\n", 200},
      {"origin: null\r\ncontent-type: Application/JSON; charset=utf-8\r\n",
       200},
      // curl -d without a header of its own.
      {"content-type: application/x-www-form-urlencoded\r\n", 200},
      {"content-type: text/plain\r\n", 200},
      {"", 200},
  };
  for (const OddHead& odd : cases) {
    Client client(listener_->port());
    client.Send(PostRequest("/a", "{}", odd.head));
    EXPECT_EQ(client.ReadResponse().status, odd.status) << odd.head;
  }
  Client client(listener_->port());
  client.Send(GetRequest("/a", "origin: http://a.test\r\n"));
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST_F(HttpListener, GivesEarlyAnswersARequestId) {
  StartListener();
  const auto id_of = [this](const std::string& request) {
    Client client(listener_->port());
    client.Send(request);
    const ClientResponse response = client.ReadResponse();
    EXPECT_GE(response.status, 400);
    const auto found = response.headers.find("x-request-id");
    return found == response.headers.end() ? "" : found->second;
  };
  EXPECT_THAT(id_of("no http\r\n\r\n"), ::testing::StartsWith("req-"));
  EXPECT_THAT(id_of(GetRequest("/", "x: " + std::string(20 << 10, 'a'))),
              ::testing::StartsWith("req-"));
  EXPECT_EQ(id_of(PostRequest("/", "", "x-request-id: mine\r\nexpect: x\r\n")),
            "mine");
  EXPECT_THAT(id_of(PostRequest("/", "", "x-request-id: a b\r\nexpect: x\r\n")),
              ::testing::StartsWith("req-"));
  EXPECT_EQ(
      id_of(GetRequest("/drop", "x-request-id: mine\r\nconnection: close\r\n")),
      "mine");
  options_.max_connections = 1;
  StartListener();
  Client only(listener_->port());
  only.Send(GetRequest("/a"));
  EXPECT_EQ(only.ReadResponse().status, 200);
  EXPECT_THAT(id_of(""), ::testing::StartsWith("req-"));
}

TEST_F(HttpListener, TimesOutAClientThatTricklesItsHeader) {
  options_.limits.header_timeout = absl::Milliseconds(50);
  StartListener();
  Client client(listener_->port());
  client.Send("GET / HTTP/1.1\r\nhost:");
  EXPECT_EQ(client.ReadResponse().status, 408);
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpListener, TimesOutAClientThatStopsInItsBody) {
  options_.limits.body_timeout = absl::Milliseconds(50);
  StartListener();
  Client client(listener_->port());
  client.Send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc");
  EXPECT_EQ(client.ReadResponse().status, 408);
}

TEST_F(HttpListener, ClosesAnIdleConnection) {
  options_.limits.idle_timeout = absl::Milliseconds(50);
  StartListener();
  Client client(listener_->port());
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpListener, DisconnectsAReaderThatLeavesTooMuchUnread) {
  options_.limits.max_stream_buffer_bytes = 64 << 10;
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  auto writer = handler_.AwaitHeld();
  ASSERT_NE(writer, nullptr);
  writer->Begin(Response());
  // Socket buffers take some megabytes before the queue grows.
  const std::string piece(32 << 10, 'x');
  bool open = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100000 && open; ++i) open = writer->Write(piece);
  EXPECT_FALSE(open);
  EXPECT_TRUE(handler_.AwaitClosed());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("reason=\"its buffer is full\" path=/hold"));
}

TEST_F(HttpListener, CutsTheLongestBuffersWhenAllTogetherHoldTooMuch) {
  options_.limits.max_total_buffer_bytes = 1 << 20;
  options_.limits.fair_buffer_bytes = 64 << 10;
  StartListener();
  Client idle(listener_->port());
  idle.Send(GetRequest("/hold"));
  auto modest = handler_.AwaitHeld();
  ASSERT_NE(modest, nullptr);
  modest->Begin(Response());
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  auto greedy = handler_.AwaitHeld(2);
  ASSERT_NE(greedy, nullptr);
  greedy->Begin(Response());
  const std::string piece(32 << 10, 'x');
  bool open = true;
  for (int i = 0; i < 100000 && open; ++i) open = greedy->Write(piece);
  EXPECT_FALSE(open);
  EXPECT_TRUE(modest->Write("x"));
  EXPECT_TRUE(handler_.AwaitClosed());
  modest->Finish();
  EXPECT_EQ(idle.ReadResponse().body, "x");
}

// The kernel's buffers hold more than this client reads within the time-out,
// so only what leaves them shows that it reads.
TEST_F(HttpListener, KeepsAStreamWhoseReaderIsSlowButSteady) {
  options_.limits.write_timeout = absl::Seconds(1);
  StartListener();
  Client client(listener_->port());
  client.ReadSlowly(16 << 10, 20);
  client.Send(GetRequest("/hold", "connection: close\r\n"));
  auto writer = handler_.AwaitHeld();
  ASSERT_NE(writer, nullptr);
  writer->Begin(Response());
  std::string sent;
  for (int i = 0; sent.size() < (4 << 20); ++i) {
    const std::string piece(1000 + i % 7, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(writer->Write(piece));
    sent += piece;
  }
  writer->Finish();
  const ClientResponse response = client.ReadResponse();
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(response.body == sent);
}

TEST_F(HttpListener, DisconnectsAReaderThatStopsReading) {
  options_.limits.max_stream_buffer_bytes = 64 << 20;
  options_.limits.write_timeout = absl::Milliseconds(100);
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  auto writer = handler_.AwaitHeld();
  ASSERT_NE(writer, nullptr);
  writer->Begin(Response());
  testing::internal::CaptureStderr();
  ASSERT_TRUE(writer->Write(std::string(32 << 20, 'x')));
  EXPECT_TRUE(handler_.AwaitClosed());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("reason=\"it reads nothing\" path=/hold"));
}

TEST_F(HttpListener, NoticesAClientThatLeavesWhileItWaits) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  ASSERT_NE(handler_.AwaitHeld(), nullptr);
  client.Close();
  EXPECT_TRUE(handler_.AwaitClosed());
}

TEST_F(HttpListener, NoticesAClientThatResetsWhileItWaits) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  ASSERT_NE(handler_.AwaitHeld(), nullptr);
  client.Reset();
  EXPECT_TRUE(handler_.AwaitClosed());
}

TEST_F(HttpListener, NoticesAnHttp10ClientThatLeavesWhileItWaits) {
  StartListener();
  Client client(listener_->port());
  client.Send("GET /hold HTTP/1.0\r\n\r\n");
  ASSERT_NE(handler_.AwaitHeld(), nullptr);
  client.Close();
  EXPECT_TRUE(handler_.AwaitClosed());
}

TEST_F(HttpListener, NoticesAStreamsClientThatLeavesByTheNextWrite) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  auto writer = handler_.AwaitHeld();
  ASSERT_NE(writer, nullptr);
  writer->Begin(Response());
  ASSERT_NE(client.ReadUntil("\r\n\r\n"), "");
  client.Close();
  writer->Write("x");
  EXPECT_TRUE(handler_.AwaitClosed());
}

TEST_F(HttpListener, AnswersAClientThatOnlyEndedItsSendingSide) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  auto writer = handler_.AwaitHeld();
  ASSERT_NE(writer, nullptr);
  client.CloseSending();
  // Two probes, and no third: it is there.
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  Response response;
  response.body = "late";
  writer->Send(response);
  EXPECT_EQ(client.ReadResponse().body, "late");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(HttpListener, StreamsToAClientThatOnlyEndedItsSendingSide) {
  StartListener();
  for (size_t held = 1; const char* version : {"1.0", "1.1"}) {
    Client client(listener_->port());
    client.Send(absl::StrCat("GET /hold HTTP/", version, "\r\n\r\n"));
    client.CloseSending();
    auto writer = handler_.AwaitHeld(held++);
    ASSERT_NE(writer, nullptr);
    writer->OnSilent(absl::Hours(1), [] {});
    writer->Begin(Response());
    ASSERT_TRUE(writer->Write(std::string(4 << 20, 'x')));
    writer->Finish();
    const ClientResponse response = client.ReadResponse();
    EXPECT_TRUE(response.complete) << version;
    EXPECT_EQ(response.body.size(), 4u << 20) << version;
  }
}

TEST_F(HttpListener, AnswersAllThatWasPipelinedBeforeAHalfClose) {
  StartListener();
  for (const char* version : {"1.0", "1.1"}) {
    Client client(listener_->port());
    const std::string request = absl::StrCat(
        "GET /p HTTP/", version, "\r\nconnection: keep-alive\r\n\r\n");
    client.Send(request + request + request + "GET /incomplete");
    client.CloseSending();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(client.ReadResponse().body, "GET /p 0") << version;
    }
    EXPECT_EQ(client.ReadResponse().status, 400) << version;
    EXPECT_TRUE(client.ReadsEnd()) << version;
  }
}

TEST_F(HttpListener, Answers500WhenAHandlerDropsItsWriter) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/drop"));
  EXPECT_EQ(client.ReadResponse().status, 500);
}

TEST_F(HttpListener, AnswersConnectionsBeyondTheLimitWith503) {
  options_.max_connections = 2;
  StartListener();
  Client first(listener_->port());
  Client second(listener_->port());
  first.Send(GetRequest("/a"));
  second.Send(GetRequest("/b"));
  EXPECT_EQ(first.ReadResponse().status, 200);
  EXPECT_EQ(second.ReadResponse().status, 200);
  Client third(listener_->port());
  EXPECT_EQ(third.ReadResponse().status, 503);
  EXPECT_TRUE(third.ReadsEnd());
  first.Send(GetRequest("/a"));
  EXPECT_EQ(first.ReadResponse().status, 200);
}

TEST_F(HttpListener, RefusesBadAddresses) {
  for (const char* address : {"", "127.0.0.1", "host.invalid:1", "1.2.3.4:x",
                              "127.0.0.1:65536", "::1"}) {
    options_.address = address;
    EXPECT_FALSE(Listener::Start(options_, &handler_).ok()) << address;
  }
  options_.address = "127.0.0.1:0";
  StartListener();
  options_.address = listener_->address();
  EXPECT_EQ(Listener::Start(options_, &handler_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(HttpListener, StopsTwiceAndWithOpenConnections) {
  StartListener();
  Client idle(listener_->port());
  Client half(listener_->port());
  half.Send("GET / HT");
  Client busy(listener_->port());
  busy.Send(GetRequest("/hold"));
  ASSERT_NE(handler_.AwaitHeld(), nullptr);
  listener_->Stop(absl::Milliseconds(10));
  listener_->Stop(absl::ZeroDuration());
  EXPECT_TRUE(handler_.AwaitClosed());
  EXPECT_TRUE(idle.ReadsEnd());
  EXPECT_TRUE(busy.ReadsEnd());
}

TEST(MetricsHttp, ServesMetricsAndProbes) {
  auto metrics = telemetry::PrometheusMetrics::Create("kvstore");
  auto server = telemetry::MetricsHttp::Start("127.0.0.1:0", metrics.get(),
                                              [] { return false; });
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(),
            "127.0.0.1:" + std::to_string((*server)->port()));
  Client client((*server)->port());
  client.Send(GetRequest("/metrics"));
  EXPECT_THAT(client.ReadResponse().body, HasSubstr("role=\"kvstore\""));
  client.Send(GetRequest("/readyz"));
  EXPECT_EQ(client.ReadResponse().status, 503);
  client.Send(GetRequest("/other"));
  EXPECT_EQ(client.ReadResponse().status, 404);
  (*server)->Stop();
  EXPECT_TRUE(client.ReadsEnd());
}

}  // namespace
}  // namespace baton::http
