// SPDX-License-Identifier: GPL-2.0-only
// The loading thread and its way back: a queue to one JavaScript environment, which may end before the load does.
#include "loader.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "engine.h"
#include "exit-gate.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{50};

// One thing said to the JavaScript thread; exactly one member is set.
struct Message {
  std::optional<double> progress;
  std::optional<EngineFacts> facts;
  std::optional<std::string> failure;
};

// Shared by the loading thread, which says things, and the queue, which delivers them on the JavaScript thread.
class Channel {
 public:
  static std::shared_ptr<Channel> Open(Napi::Env env, Napi::Function on_progress) {
    auto channel = std::make_shared<Channel>(env);
    auto kept_by_queue = std::make_unique<std::shared_ptr<Channel>>(channel);
    napi_value name = Napi::String::New(env, "sluice:load");
    napi_value callback = on_progress.IsEmpty() ? nullptr : static_cast<napi_value>(on_progress);
    napi_status status =
        napi_create_threadsafe_function(env, callback, nullptr, name, 0, 1, kept_by_queue.get(), OnQueueFinalized,
                                        channel.get(), Deliver, &channel->queue_);
    if (status != napi_ok) throw Napi::Error::New(env, "Cannot create the queue of a load");
    kept_by_queue.release();
    return channel;
  }

  explicit Channel(Napi::Env env) : deferred_(Napi::Promise::Deferred::New(env)) {}

  Napi::Value promise() const { return deferred_.Promise(); }

  // What is said to an environment that has ended is dropped: false.
  bool Say(std::unique_ptr<Message> message) {
    std::lock_guard lock(mutex_);
    if (!open_) return false;
    if (napi_call_threadsafe_function(queue_, message.get(), napi_tsfn_nonblocking) == napi_ok) {
      message.release();
      return true;
    }
    open_ = false;  // The queue is closing and has taken our reference back.
    return false;
  }

  void Close() {
    std::lock_guard lock(mutex_);
    if (open_) napi_release_threadsafe_function(queue_, napi_tsfn_release);
    open_ = false;
  }

 private:
  // Comes before Node frees the queue, so that the loading thread never touches a freed one.
  static void OnQueueFinalized(napi_env, void* data, void*) {
    std::unique_ptr<std::shared_ptr<Channel>> self(static_cast<std::shared_ptr<Channel>*>(data));
    std::lock_guard lock((*self)->mutex_);
    (*self)->open_ = false;
  }

  static void Deliver(napi_env raw_env, napi_value callback, void* context, void* data) {
    std::unique_ptr<Message> message(static_cast<Message*>(data));
    if (raw_env == nullptr) {
      // The environment ends: this call only hands the message back, and nobody will say that the engine shall serve.
      if (message->facts) engine::Discard(message->facts->epoch);
      return;
    }
    Napi::Env env(raw_env);
    try {
      Napi::HandleScope scope(env);
      static_cast<Channel*>(context)->Tell(env, callback, *message);
    } catch (const Napi::Error& error) {
      error.ThrowAsJavaScriptException();
    }
  }

  void Tell(Napi::Env env, napi_value callback, const Message& message) {
    if (message.progress) {
      if (callback == nullptr) return;
      Napi::Function(env, callback).Call({Napi::Number::New(env, *message.progress)});
    } else if (message.facts) {
      deferred_.Resolve(FactsToObject(env, *message.facts));
    } else {
      deferred_.Reject(Napi::Error::New(env, message.failure.value_or("")).Value());
    }
  }

  std::mutex mutex_;
  bool open_ = true;
  napi_threadsafe_function queue_ = nullptr;
  Napi::Promise::Deferred deferred_;
};

// Passes progress on at a bounded rate, but always that all is done.
class Throttle {
 public:
  explicit Throttle(Channel& channel) : channel_(channel) {}

  void Offer(double progress) {
    // Engines that are built anew, because the first ones can't be used, begin again.
    if (progress <= reached_) return;
    const auto now = std::chrono::steady_clock::now();
    if (progress < 1 && now - last_ < kProgressInterval) return;
    last_ = now;
    reached_ = progress;
    // libclamav calls this, and is C: where memory is short nobody hears of it.
    std::unique_ptr<Message> message(new (std::nothrow) Message{progress, std::nullopt, std::nullopt});
    if (message) channel_.Say(std::move(message));
  }

 private:
  Channel& channel_;
  std::chrono::steady_clock::time_point last_{};
  double reached_ = 0;
};

// Beside scans a load takes what they leave of the processors; a nice of 10 weighs a tenth of a scan thread.
void StandBack() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
}

// `outcome` is made before: a load may fail because there is no memory.
void Load(Channel& channel, const LoadRequest& request, std::unique_ptr<Message> outcome) {
  if (engine::Current()) StandBack();
  Throttle throttle(channel);
  LoadObserver observer{
      [&throttle](double progress) { throttle.Offer(progress); },
      exit_gate::PassOrPark,
  };
  uint64_t epoch = 0;
  try {
    outcome->facts = engine::Prepare(request, observer);
    epoch = outcome->facts->epoch;
  } catch (const std::exception& error) {
    outcome->failure = error.what();
  }
  if (!channel.Say(std::move(outcome)) && epoch > 0) engine::Discard(epoch);
  channel.Close();
}

}  // namespace

Napi::Value StartLoading(Napi::Env env, LoadRequest request, Napi::Function on_progress) {
  std::shared_ptr<Channel> channel = Channel::Open(env, on_progress);
  try {
    std::thread([channel, request = std::move(request), outcome = std::make_unique<Message>()]() mutable {
      Load(*channel, request, std::move(outcome));
    }).detach();
  } catch (const std::exception& error) {
    channel->Say(std::make_unique<Message>(Message{std::nullopt, std::nullopt, std::string("Cannot start a thread: ") + error.what()}));
    channel->Close();
  }
  return channel->promise();
}

Napi::Object FactsToObject(Napi::Env env, const EngineFacts& facts) {
  Napi::Array warnings = Napi::Array::New(env, facts.warnings.size());
  for (uint32_t i = 0; i < facts.warnings.size(); i++) warnings[i] = facts.warnings[i];
  Napi::Object object = Napi::Object::New(env);
  object["epoch"] = static_cast<double>(facts.epoch);
  object["engineVersion"] = facts.engine_version;
  object["signatureCount"] = static_cast<double>(facts.signature_count);
  object["loadMillis"] = facts.load_millis;
  object["warnings"] = warnings;
  return object;
}

}  // namespace sluice
