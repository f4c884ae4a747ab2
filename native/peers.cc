// SPDX-License-Identifier: GPL-2.0-only
// Sockets have numbers of their own, so that nobody names a descriptor that belongs to something else by now. All of it is of one thread, that of the event loop.
#include "peers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "arguments.h"
#include "libuv.h"

namespace sluice::peers {
namespace {

// At most so many events are reported at a time. The others follow in the next turn of the event loop.
constexpr size_t kEvents = 64;
// A message with more is cut by the kernel, which closes the others.
constexpr size_t kDescriptors = 4;

constexpr int kNotNow = -1;
constexpr int kFailed = -2;

// Reported once each time that more has come, so that nothing is changed while a connection is not read from.
constexpr uint32_t kPeerEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

struct Poller {
  explicit Poller(Napi::Function function) : onReady(Napi::Persistent(function)), handle(new char[uv_handle_size(kPollHandle)]) {}

  uv_handle_s* Handle() { return reinterpret_cast<uv_handle_s*>(handle.get()); }

  Napi::FunctionReference onReady;
  std::unique_ptr<char[]> handle;
  int epoll = -1;
};

struct Socket {
  uint32_t poller;
  int epoll;
  int descriptor;
  bool isListener;
  // Of an accepted one that isn't of this machine.
  std::string address;
};

// Of one environment: of the event loop that its handles are in.
struct Table {
  std::unordered_map<uint32_t, Poller*> pollers;
  std::unordered_map<uint32_t, Socket> sockets;
  uint32_t last = 0;
  bool isWatched = false;

  uint32_t NextNumber() {
    do {
      last += 1;
    } while (last == 0 || pollers.count(last) > 0 || sockets.count(last) > 0);
    return last;
  }
};

Table& TheTable() {
  static thread_local Table table;
  return table;
}

uint32_t NumberOf(const Napi::CallbackInfo& info) { return sluice::NumberOf(info[0], "number").Uint32Value(); }

Socket* SocketOf(const Napi::CallbackInfo& info) {
  const auto found = TheTable().sockets.find(NumberOf(info));
  return found == TheTable().sockets.end() ? nullptr : &found->second;
}

Poller* PollerOf(const Napi::CallbackInfo& info) {
  const auto found = TheTable().pollers.find(NumberOf(info));
  if (found == TheTable().pollers.end()) throw Napi::TypeError::New(info.Env(), "there is no such poller");
  return found->second;
}

int DescriptorOf(const Napi::Value& value) { return sluice::NumberOf(value, "descriptor").Int32Value(); }

// Negative: errno says why.
int AcceptFrom(int listener, sockaddr_storage* address) {
  int descriptor = -1;
  do {
    socklen_t length = sizeof(*address);
    descriptor = accept4(listener, reinterpret_cast<sockaddr*>(address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (descriptor < 0 && (errno == EINTR || errno == ECONNABORTED));
  return descriptor;
}

// A listening socket is the caller's to close.
void Leave(const Socket& socket) {
  if (!socket.isListener) close(socket.descriptor);
  else epoll_ctl(socket.epoll, EPOLL_CTL_DEL, socket.descriptor, nullptr);
}

void OnClosed(uv_handle_s* handle) { delete static_cast<Poller*>(uv_handle_get_data(handle)); }

// What is closed stays until the end of this turn of the event loop, and its environment may be gone by then.
void End(uint32_t number, Poller* poller) {
  auto& sockets = TheTable().sockets;
  for (auto at = sockets.begin(); at != sockets.end();) {
    if (at->second.poller == number) {
      Leave(at->second);
      at = sockets.erase(at);
    } else {
      ++at;
    }
  }
  poller->onReady.Reset();
  uv_poll_stop(poller->Handle());
  close(poller->epoll);
  uv_close(poller->Handle(), OnClosed);
}

// The environment ends: no handle may be left in its loop.
void CloseAll(Table* table) {
  for (auto& [number, poller] : table->pollers) End(number, poller);
  table->pollers.clear();
}

void OnReady(uv_handle_s* handle, int, int) {
  auto* poller = static_cast<Poller*>(uv_handle_get_data(handle));
  Napi::Env env = poller->onReady.Env();
  Napi::HandleScope scope(env);
  try {
    poller->onReady.MakeCallback(env.Global(), {});
  } catch (const Napi::Error& error) {
    // As from any callback of the event loop.
    napi_fatal_exception(env, error.Value());
  }
}

bool Watch(int epoll, int descriptor, uint32_t events, uint32_t number, int operation) {
  epoll_event event = {};
  event.events = events;
  event.data.u32 = number;
  return epoll_ctl(epoll, operation, descriptor, &event) == 0;
}

uint32_t BitsOf(uint32_t events) {
  uint32_t bits = 0;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) bits |= 1;
  if ((events & EPOLLOUT) != 0) bits |= 2;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) bits |= 4;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) bits |= 8;
  return bits;
}

// Empty: of this machine, by a UNIX socket or by the loopback's addresses.
std::string AddressIn(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const in_addr& address = reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr;
    if (ntohl(address.s_addr) >> 24 == 127) return "";
    inet_ntop(AF_INET, &address, text, sizeof(text));
  } else if (storage.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127)) return "";
    inet_ntop(AF_INET6, &address, text, sizeof(text));
  }
  return text;
}

// Into the words as far as they go: those that nobody would hear of are closed.
void TakeDescriptors(msghdr& message, int32_t* words, size_t length) {
  size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t bytes = part->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof(descriptor));
      if (count + 1 < length) words[++count] = descriptor;
      else close(descriptor);
    }
  }
  words[0] = static_cast<int32_t>(count);
}

}  // namespace

Napi::Value OpenPoller(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!info[0].IsFunction()) throw Napi::TypeError::New(env, "openPoller wants a function");
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) throw Napi::Error::New(env, "There is no event loop");
  auto poller = std::make_unique<Poller>(info[0].As<Napi::Function>());
  poller->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (poller->epoll < 0) throw SystemError(env, "epoll_create");
  if (uv_poll_init(loop, poller->Handle(), poller->epoll) != 0) {
    close(poller->epoll);
    throw Napi::Error::New(env, "The epoll can't be polled");
  }
  uv_handle_set_data(poller->Handle(), poller.get());
  uv_poll_start(poller->Handle(), kUvReadable, OnReady);
  Table& table = TheTable();
  if (!table.isWatched) env.AddCleanupHook(CloseAll, &table);
  table.isWatched = true;
  const uint32_t number = table.NextNumber();
  table.pollers.emplace(number, poller.release());
  return Napi::Number::New(env, number);
}

Napi::Value ClosePoller(const Napi::CallbackInfo& info) {
  Table& table = TheTable();
  const auto found = table.pollers.find(NumberOf(info));
  if (found == table.pollers.end()) return info.Env().Undefined();
  Poller* poller = found->second;
  const uint32_t number = found->first;
  table.pollers.erase(found);
  End(number, poller);
  return info.Env().Undefined();
}

Napi::Value Ready(const Napi::CallbackInfo& info) {
  Poller* poller = PollerOf(info);
  auto words = ArrayOf<uint32_t>(info[1], "events");
  const size_t most = std::min(words.ElementLength() / 2, kEvents);
  if (most == 0) throw Napi::TypeError::New(info.Env(), "there is no room for an event");
  std::array<epoll_event, kEvents> events;
  const int count = epoll_wait(poller->epoll, events.data(), static_cast<int>(most), 0);
  uint32_t* word = words.Data();
  for (int at = 0; at < count; at += 1) {
    *word++ = events[static_cast<size_t>(at)].data.u32;
    *word++ = BitsOf(events[static_cast<size_t>(at)].events);
  }
  return Napi::Number::New(info.Env(), std::max(count, 0));
}

Napi::Value WatchListener(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Poller* poller = PollerOf(info);
  const int descriptor = DescriptorOf(info[1]);
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0) {
    throw SystemError(env, "fcntl");
  }
  // What is accepted there has it as well. A UNIX socket knows nothing of it.
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  Table& table = TheTable();
  const uint32_t number = table.NextNumber();
  if (!Watch(poller->epoll, descriptor, EPOLLIN, number, EPOLL_CTL_ADD)) {
    throw SystemError(env, "epoll_ctl");
  }
  table.sockets.emplace(number, Socket{NumberOf(info), poller->epoll, descriptor, true, ""});
  return Napi::Number::New(env, number);
}

Napi::Value Waiting(const Napi::CallbackInfo& info) {
  tcp_info facts = {};
  socklen_t size = sizeof(facts);
  if (getsockopt(DescriptorOf(info[0]), IPPROTO_TCP, TCP_INFO, &facts, &size) != 0) return info.Env().Null();
  // Of a listening socket this field is the length of its queue.
  return Napi::Number::New(info.Env(), facts.tcpi_unacked);
}

Napi::Value Accept(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Poller* poller = PollerOf(info);
  sockaddr_storage storage = {};
  const int descriptor = AcceptFrom(DescriptorOf(info[1]), &storage);
  if (descriptor < 0) return Napi::Number::New(env, errno == EAGAIN ? 0 : kNotNow);
  Table& table = TheTable();
  const uint32_t number = table.NextNumber();
  if (!Watch(poller->epoll, descriptor, kPeerEvents, number, EPOLL_CTL_ADD)) {
    close(descriptor);
    return Napi::Number::New(env, kNotNow);
  }
  table.sockets.emplace(number, Socket{NumberOf(info), poller->epoll, descriptor, false, AddressIn(storage)});
  return Napi::Number::New(env, number);
}

Napi::Value AcceptDescriptor(const Napi::CallbackInfo& info) {
  sockaddr_storage storage = {};
  const int descriptor = AcceptFrom(DescriptorOf(info[0]), &storage);
  if (descriptor >= 0) return Napi::Number::New(info.Env(), descriptor);
  return Napi::Number::New(info.Env(), errno == EAGAIN ? kFailed : kNotNow);
}

Napi::Value Address(const Napi::CallbackInfo& info) {
  const Socket* peer = SocketOf(info);
  if (peer == nullptr || peer->address.empty()) return info.Env().Null();
  return Napi::String::New(info.Env(), peer->address);
}

Napi::Value Receive(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Socket* peer = SocketOf(info);
  auto bytes = ArrayOf<uint8_t>(info[1], "bytes");
  auto words = ArrayOf<int32_t>(info[2], "descriptors");
  if (bytes.ByteLength() == 0 || words.ElementLength() == 0) throw Napi::TypeError::New(env, "there is no room for anything");
  if (peer == nullptr || peer->isListener) return Napi::Number::New(env, kFailed);
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  iovec part = {bytes.Data(), bytes.ByteLength()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Without room for them the kernel keeps open files, and gives them up.
  message.msg_controllen = words.ElementLength() == 1 ? 0 : sizeof(control);
  ssize_t count = -1;
  do {
    count = recvmsg(peer->descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  words.Data()[0] = 0;
  if (count < 0) return Napi::Number::New(env, errno == EAGAIN ? kNotNow : kFailed);
  TakeDescriptors(message, words.Data(), words.ElementLength());
  return Napi::Number::New(env, static_cast<double>(count));
}

Napi::Value Send(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const uint32_t number = NumberOf(info);
  const Socket* peer = SocketOf(info);
  auto bytes = ArrayOf<uint8_t>(info[1], "bytes");
  if (peer == nullptr || peer->isListener) return Napi::Number::New(env, kFailed);
  const bool isLast = info[2].ToBoolean();
  ssize_t count = -1;
  do {
    count = send(peer->descriptor, bytes.Data(), bytes.ByteLength(), MSG_DONTWAIT | MSG_NOSIGNAL | (isLast ? MSG_MORE : 0));
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno != EAGAIN) return Napi::Number::New(env, kFailed);
  const size_t sent = count < 0 ? 0 : static_cast<size_t>(count);
  const bool isWhole = sent == bytes.ByteLength();
  if (!isWhole && !Watch(peer->epoll, peer->descriptor, kPeerEvents | EPOLLOUT, number, EPOLL_CTL_MOD)) {
    return Napi::Number::New(env, kFailed);
  }
  return Napi::Number::New(env, static_cast<double>(sent));
}

Napi::Value EndSending(const Napi::CallbackInfo& info) {
  const Socket* peer = SocketOf(info);
  if (peer != nullptr && !peer->isListener) shutdown(peer->descriptor, SHUT_WR);
  return info.Env().Undefined();
}

Napi::Value CloseSocket(const Napi::CallbackInfo& info) {
  Table& table = TheTable();
  const auto found = table.sockets.find(NumberOf(info));
  if (found == table.sockets.end()) return info.Env().Undefined();
  Leave(found->second);
  table.sockets.erase(found);
  return info.Env().Undefined();
}

}  // namespace sluice::peers
