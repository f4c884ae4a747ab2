// SPDX-License-Identifier: GPL-2.0-only
// A poll handle of the event loop for each connection, and recvmsg(2) when it can be read.
#include "receiver.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

// What is used of libuv, which Node exports and whose header is not among those of Node-API. Sizes are asked for, and fields left alone.
extern "C" {
struct uv_loop_s;
struct uv_handle_s;
size_t uv_handle_size(int type);
void uv_handle_set_data(uv_handle_s* handle, void* data);
void* uv_handle_get_data(const uv_handle_s* handle);
void uv_close(uv_handle_s* handle, void (*onClose)(uv_handle_s*));
int uv_poll_init(uv_loop_s* loop, uv_handle_s* handle, int descriptor);
int uv_poll_start(uv_handle_s* handle, int events, void (*onEvent)(uv_handle_s*, int status, int events));
int uv_poll_stop(uv_handle_s* handle);
}

namespace sluice::receiver {
namespace {

constexpr int kPollHandle = 8;  // UV_POLL
constexpr int kReadable = 1;    // UV_READABLE
// As much as Node reads at once.
constexpr size_t kBytes = 64 * 1024;
// A message with more is cut by the kernel, which closes the others.
constexpr size_t kDescriptors = 4;

struct Receiver {
  Receiver(Napi::Env env, Napi::Function function)
      : onBytes(Napi::Persistent(function)), context(env, "receiver"), handle(new char[uv_handle_size(kPollHandle)]) {}

  uv_handle_s* Handle() { return reinterpret_cast<uv_handle_s*>(handle.get()); }

  Napi::FunctionReference onBytes;
  Napi::AsyncContext context;
  std::unique_ptr<char[]> handle;
  int descriptor = -1;
  bool isClosed = false;
};

// Of one environment: of the event loop that its handles are in.
struct Receivers {
  std::map<uint32_t, Receiver*> open;
  uint32_t last = 0;
};

Receivers& TheReceivers() {
  static thread_local Receivers receivers;
  return receivers;
}

void OnClosed(uv_handle_s* handle) {
  auto* receiver = static_cast<Receiver*>(uv_handle_get_data(handle));
  close(receiver->descriptor);
  delete receiver;
}

void End(Receiver* receiver) {
  if (receiver->isClosed) return;
  receiver->isClosed = true;
  uv_poll_stop(receiver->Handle());
  uv_close(receiver->Handle(), OnClosed);
}

std::vector<int> DescriptorsIn(msghdr& message) {
  std::vector<int> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = found.size();
    found.resize(before + count);
    std::memcpy(found.data() + before, CMSG_DATA(part), count * sizeof(int));
  }
  return found;
}

void OnReadable(uv_handle_s* handle, int status, int) {
  auto* receiver = static_cast<Receiver*>(uv_handle_get_data(handle));
  static thread_local char bytes[kBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  iovec part = {bytes, sizeof(bytes)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t count = status < 0 ? -1 : recvmsg(receiver->descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (status >= 0 && count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::vector<int> descriptors = count < 0 ? std::vector<int>() : DescriptorsIn(message);
  const char* end = count < 0 ? "error" : count == 0 ? "end" : nullptr;
  Napi::Env env = receiver->onBytes.Env();
  Napi::HandleScope scope(env);
  if (end != nullptr) uv_poll_stop(handle);
  Napi::Array list = Napi::Array::New(env, descriptors.size());
  for (uint32_t at = 0; at < descriptors.size(); at += 1) list[at] = Napi::Number::New(env, descriptors[at]);
  auto buffer = Napi::Buffer<char>::Copy(env, bytes, count < 0 ? 0 : static_cast<size_t>(count));
  Napi::Value reason = end == nullptr ? env.Null() : Napi::Value(Napi::String::New(env, end));
  try {
    receiver->onBytes.MakeCallback(env.Global(), {buffer, list, reason}, receiver->context);
  } catch (const Napi::Error& error) {
    // As from any callback of the event loop.
    napi_fatal_exception(env, error.Value());
  }
}

Receiver* Find(const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber()) throw Napi::TypeError::New(info.Env(), "number must be a number");
  Receivers& receivers = TheReceivers();
  const auto found = receivers.open.find(info[0].As<Napi::Number>().Uint32Value());
  return found == receivers.open.end() ? nullptr : found->second;
}

// The environment ends: no handle may be left in its loop.
void CloseAll(Receivers* receivers) {
  for (auto& [number, receiver] : receivers->open) End(receiver);
  receivers->open.clear();
}

}  // namespace

Napi::Value Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsNumber() || !info[1].IsFunction()) throw Napi::TypeError::New(env, "openReceiver wants a descriptor and a function");
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "There is no event loop");
  // A number of its own: the loop watches the caller's for its own handle.
  const int descriptor = fcntl(info[0].As<Napi::Number>().Int32Value(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) throw Napi::Error::New(env, std::string("dup: ") + std::strerror(errno));
  auto receiver = std::make_unique<Receiver>(env, info[1].As<Napi::Function>());
  receiver->descriptor = descriptor;
  if (uv_poll_init(loop, receiver->Handle(), descriptor) != 0) {
    close(descriptor);
    throw Napi::Error::New(env, "The descriptor can't be polled");
  }
  uv_handle_set_data(receiver->Handle(), receiver.get());
  Receivers& receivers = TheReceivers();
  if (receivers.last == 0) env.AddCleanupHook(CloseAll, &receivers);
  const uint32_t number = ++receivers.last;
  receivers.open.emplace(number, receiver.release());
  return Napi::Number::New(env, number);
}

Napi::Value Start(const Napi::CallbackInfo& info) {
  Receiver* receiver = Find(info);
  if (receiver != nullptr) uv_poll_start(receiver->Handle(), kReadable, OnReadable);
  return info.Env().Undefined();
}

Napi::Value Stop(const Napi::CallbackInfo& info) {
  Receiver* receiver = Find(info);
  if (receiver != nullptr) uv_poll_stop(receiver->Handle());
  return info.Env().Undefined();
}

Napi::Value Close(const Napi::CallbackInfo& info) {
  Receiver* receiver = Find(info);
  if (receiver == nullptr) return info.Env().Undefined();
  TheReceivers().open.erase(info[0].As<Napi::Number>().Uint32Value());
  End(receiver);
  return info.Env().Undefined();
}

}  // namespace sluice::receiver
