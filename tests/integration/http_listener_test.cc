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

  std::shared_ptr<ResponseWriter> AwaitHeld() {
    MutexLock lock(&mutex_);
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (held_.empty() && absl::Now() < end) {
      changed_.WaitWithTimeout(&mutex_, end - absl::Now());
    }
    return held_.empty() ? nullptr : held_.back();
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
  for (int i = 0; i < 100000 && open; ++i) open = writer->Write(piece);
  EXPECT_FALSE(open);
  EXPECT_TRUE(handler_.AwaitClosed());
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
  ASSERT_TRUE(writer->Write(std::string(32 << 20, 'x')));
  EXPECT_TRUE(handler_.AwaitClosed());
}

TEST_F(HttpListener, NoticesAClientThatLeavesWhileItWaits) {
  StartListener();
  Client client(listener_->port());
  client.Send(GetRequest("/hold"));
  ASSERT_NE(handler_.AwaitHeld(), nullptr);
  client.Close();
  EXPECT_TRUE(handler_.AwaitClosed());
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
