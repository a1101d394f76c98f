#include "worker/api/registration_client.h"

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "services/base/log.h"
#include "services/base/mutex.h"
#include "services/rpc/channel.h"

namespace baton::worker {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);
constexpr absl::Duration kMinInterval = absl::Milliseconds(100);
constexpr std::chrono::seconds kCallTimeout(5);

// One Register call; shared with gRPC's callback.
struct Call {
  grpc::ClientContext context;
  v1::RegisterRequest request;
  v1::RegisterResponse response;
};

}  // namespace

struct RegistrationClient::State {
  Options options;
  Executor* timers = nullptr;
  std::unique_ptr<v1::DiscoveryService::Stub> stub;
  Mutex mutex;
  CondVar idle;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  bool registered ABSL_GUARDED_BY(mutex) = false;
  std::shared_ptr<Call> call ABSL_GUARDED_BY(mutex);  // in flight

  // Logs changes only: a heartbeat is no news.
  void Note(const grpc::Status& status) {
    bool changed;
    {
      MutexLock lock(&mutex);
      changed = registered != status.ok() && !stopped;
      registered = status.ok();
    }
    if (!changed) return;
    if (status.ok()) {
      Log(LogLevel::kInfo, "registered", {{"gateway", options.gateway}});
    } else {
      Log(LogLevel::kWarning, "gateway lost",
          {{"gateway", options.gateway}, {"error", status.error_message()}});
    }
  }

  void CallEnded() {
    MutexLock lock(&mutex);
    call.reset();
    idle.SignalAll();
  }
};

RegistrationClient::RegistrationClient(const Options& options, Executor* timers)
    : state_(std::make_shared<State>()) {
  state_->options = options;
  state_->timers = timers;
  state_->stub =
      v1::DiscoveryService::NewStub(rpc::MakeChannel(options.gateway));
  CallNow(state_);
}

RegistrationClient::~RegistrationClient() {
  MutexLock lock(&state_->mutex);
  state_->stopped = true;
  if (state_->call != nullptr) state_->call->context.TryCancel();
  // Its callback uses the timers, which may go right after this.
  while (state_->call != nullptr) state_->idle.Wait(&state_->mutex);
}

void RegistrationClient::CallNow(const std::shared_ptr<State>& state) {
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  call->request.set_worker_id(state->options.worker.value());
  call->request.set_address(state->options.address);
  call->request.set_epoch(state->options.epoch.value());
  {
    MutexLock lock(&state->mutex);
    if (state->stopped) return;
    state->call = call;
  }
  state->stub->async()->Register(
      &call->context, &call->request, &call->response,
      [state, call](grpc::Status status) {
        state->Note(status);
        absl::Duration pause = kRetryInterval;
        if (status.ok()) {
          pause = std::max(
              absl::Milliseconds(call->response.heartbeat_interval_ms()),
              kMinInterval);
        }
        state->timers->PostAfter(pause, [weak = std::weak_ptr<State>(state)] {
          if (auto alive = weak.lock()) CallNow(alive);
        });
        state->CallEnded();
      });
}

}  // namespace baton::worker
