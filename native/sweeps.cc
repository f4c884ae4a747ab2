// SPDX-License-Identifier: GPL-2.0-only
// uWebSockets.js counts the silence of a connection by sweeps, one every four seconds, and closes it without a look at what has arrived. A process that
// stood still, or is late, would so end connections whose next request lies unread in the kernel. The sweep therefore waits for the event loop
// to read those first. Its timer is found among the loop's, since the library has no call for it.
#include "sweeps.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "libuv.h"

namespace sluice {
namespace {

// LIBUS_TIMEOUT_GRANULARITY of uSockets.
constexpr uint64_t kSweepMillis = 4000;
// A connection is ended after 8 to 12 s; one that has said nothing for less is in no danger.
constexpr uint32_t kSilentMillis = 7000;
// Then the sweep goes on: slow bodies arrive over silent connections all the time, and what arrived first has been read long ago.
constexpr int kDelaysMost = 50;
constexpr int kEventsMost = 256;

// The library has one for each event loop.
thread_local uv_handle_cb sweep = nullptr;
thread_local int delays = 0;

// Level-triggered: what is asked here is reported again to the event loop.
bool HasUnreadOfSilent(uv_loop_s* loop) {
  epoll_event events[kEventsMost];
  const int count = epoll_wait(uv_backend_fd(loop), events, kEventsMost, 0);
  for (int index = 0; index < count; index += 1) {
    if ((events[index].events & EPOLLIN) == 0) continue;
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(events[index].data.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (info.tcpi_last_data_sent >= kSilentMillis) return true;
  }
  return count == kEventsMost;
}

void GuardedSweep(uv_handle_s* timer) {
  if (delays < kDelaysMost && HasUnreadOfSilent(uv_handle_get_loop(timer))) {
    delays += 1;
    // After the next reading.
    uv_timer_start(timer, GuardedSweep, 1, kSweepMillis);
    return;
  }
  delays = 0;
  sweep(timer);
}

// Where a timer keeps its callback: as in one of ours, whose callback is known. 0: it is not found.
size_t CallbackOffset(uv_loop_s* loop) {
  const size_t size = uv_handle_size(kTimerHandle);
  char* bytes = new char[size]();
  auto* timer = reinterpret_cast<uv_handle_s*>(bytes);
  uv_timer_init(loop, timer);
  uv_timer_start(timer, GuardedSweep, kSweepMillis, 0);
  size_t offset = 0;
  for (size_t at = 0; offset == 0 && at + sizeof(uv_handle_cb) <= size; at += sizeof(uv_handle_cb)) {
    uv_handle_cb held = nullptr;
    std::memcpy(&held, bytes + at, sizeof(held));
    if (held == GuardedSweep) offset = at;
  }
  uv_timer_stop(timer);
  uv_close(timer, [](uv_handle_s* closed) { delete[] reinterpret_cast<char*>(closed); });
  return offset;
}

struct Found {
  size_t callbackOffset;
  bool isGuarded;
};

void Guard(uv_handle_s* handle, void* argument) {
  if (uv_handle_get_type(handle) != kTimerHandle || !uv_is_active(handle) || uv_timer_get_repeat(handle) != kSweepMillis) return;
  auto* found = static_cast<Found*>(argument);
  found->isGuarded = true;
  char* place = reinterpret_cast<char*>(handle) + found->callbackOffset;
  uv_handle_cb held = nullptr;
  std::memcpy(&held, place, sizeof(held));
  if (held == GuardedSweep) return;
  sweep = held;
  const uv_handle_cb guarded = GuardedSweep;
  std::memcpy(place, &guarded, sizeof(guarded));
}

}  // namespace

Napi::Value GuardSweeps(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "there is no event loop");
  Found found = {CallbackOffset(loop), false};
  if (found.callbackOffset != 0) uv_walk(loop, Guard, &found);
  return Napi::Boolean::New(env, found.isGuarded);
}

}  // namespace sluice
