// SPDX-License-Identifier: GPL-2.0-only
// What is used of libuv, which Node exports and whose header is not among those of Node-API. Sizes are asked for, and fields left alone.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct uv_loop_s;
struct uv_handle_s;
using uv_handle_cb = void (*)(uv_handle_s*);

size_t uv_handle_size(int type);
int uv_handle_get_type(const uv_handle_s* handle);
uv_loop_s* uv_handle_get_loop(const uv_handle_s* handle);
void uv_handle_set_data(uv_handle_s* handle, void* data);
void* uv_handle_get_data(const uv_handle_s* handle);
int uv_is_active(const uv_handle_s* handle);
void uv_unref(uv_handle_s* handle);
void uv_close(uv_handle_s* handle, uv_handle_cb onClose);
void uv_walk(uv_loop_s* loop, void (*each)(uv_handle_s*, void* argument), void* argument);
int uv_backend_fd(const uv_loop_s* loop);
uint64_t uv_hrtime(void);

int uv_idle_init(uv_loop_s* loop, uv_handle_s* idle);
int uv_idle_start(uv_handle_s* idle, uv_handle_cb onTurn);
int uv_idle_stop(uv_handle_s* idle);

int uv_poll_init(uv_loop_s* loop, uv_handle_s* poll, int descriptor);
int uv_poll_start(uv_handle_s* poll, int events, void (*onEvent)(uv_handle_s*, int status, int events));
int uv_poll_stop(uv_handle_s* poll);

int uv_timer_init(uv_loop_s* loop, uv_handle_s* timer);
int uv_timer_start(uv_handle_s* timer, uv_handle_cb onDue, uint64_t millis, uint64_t repeat);
int uv_timer_stop(uv_handle_s* timer);
uint64_t uv_timer_get_repeat(const uv_handle_s* timer);
}

namespace sluice {

// As uv_handle_type numbers them.
constexpr int kIdleHandle = 6;
constexpr int kPollHandle = 8;
constexpr int kTimerHandle = 13;
constexpr int kUvReadable = 1;

}  // namespace sluice
