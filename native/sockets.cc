// SPDX-License-Identifier: GPL-2.0-only
// The listening socket that outlives a server process: opened by the supervisor, inherited by each server. An addon of its own, without libclamav.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <napi.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "arguments.h"
#include "connections.h"
#include "sweeps.h"

namespace {

using sluice::NumberOf;
using sluice::SystemError;

// Connections that wait to be accepted; the kernel cuts it to net.core.somaxconn (4096). They wait for a server that
// starts anew, too.
constexpr int kBacklog = 4096;
// What a connection may have unread in the kernel, about. uWebSockets.js reads 512 KB at a time, and again at once as long as
// that much was there: with the kernel's own bound (6 to 32 MB) a body near the limit is read in one turn of the event loop, in
// which nobody else is served. Debian allows 208 KB (net.core.rmem_max).
constexpr int kUnreadBytes = 256 * 1024;

// openListener(address, port) -> descriptor. The address is a numeric one; without SO_REUSEPORT nobody else can join.
Napi::Value OpenListener(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (info.Length() != 2 || !info[0].IsString() || !info[1].IsNumber()) {
    throw Napi::TypeError::New(env, "openListener wants an address and a port");
  }
  const std::string address = info[0].As<Napi::String>().Utf8Value();
  const uint32_t port = info[1].As<Napi::Number>().Uint32Value();
  if (port > 65535) throw Napi::TypeError::New(env, "a port has 16 bits");

  sockaddr_storage storage = {};
  socklen_t length = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<uint16_t>(port));
    length = sizeof(*four);
  } else if (inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<uint16_t>(port));
    length = sizeof(*six);
  } else {
    throw Napi::TypeError::New(env, "the address is not a numeric one");
  }

  const int descriptor = socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw SystemError(env, "socket");
  const int on = 1;
  const int off = 0;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // What is accepted has the same.
  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &kUnreadBytes, sizeof(kUnreadBytes));
  // Like the HTTP library: `::` is for IPv4 as well.
  if (storage.ss_family == AF_INET6) setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(descriptor, reinterpret_cast<sockaddr*>(&storage), length) != 0 || listen(descriptor, kBacklog) != 0) {
    const int code = errno;
    close(descriptor);
    throw SystemError(env, "listen", code);
  }
  return Napi::Number::New(env, descriptor);
}

// refuseConnections(descriptor): from now on nobody begins to connect, in any process that listens with it. Whose handshake is under way still gets through. A socket that
// closes resets those, and those that nobody has accepted yet; who begins now asks again a second later, and is refused when the socket is closed.
Napi::Value RefuseConnections(const Napi::CallbackInfo& info) {
  constexpr uint32_t kFlagsAt = 13;
  constexpr uint32_t kSyn = 0x02;
  constexpr uint32_t kAck = 0x10;
  constexpr uint32_t kDrop = 0;
  constexpr uint32_t kPass = 0xffffffff;
  std::array program{
      sock_filter{BPF_LD | BPF_B | BPF_ABS, 0, 0, kFlagsAt},
      sock_filter{BPF_ALU | BPF_AND | BPF_K, 0, 0, kSyn | kAck},
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, kSyn},
      sock_filter{BPF_RET | BPF_K, 0, 0, kDrop},
      sock_filter{BPF_RET | BPF_K, 0, 0, kPass},
  };
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  // A kernel that refuses it leaves a moment in which connections are reset.
  setsockopt(NumberOf(info[0], "descriptor").Int32Value(), SOL_SOCKET, SO_ATTACH_FILTER, &whole, sizeof(whole));
  return info.Env().Undefined();
}

// openUnixListener(path, mode) -> descriptor. The socket has its mode from its first moment on.
Napi::Value OpenUnixListener(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (info.Length() != 2 || !info[0].IsString() || !info[1].IsNumber()) {
    throw Napi::TypeError::New(env, "openUnixListener wants a path and a mode");
  }
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  const auto mode = static_cast<mode_t>(info[1].As<Napi::Number>().Uint32Value() & 0777);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) throw Napi::TypeError::New(env, "the path is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size());

  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw SystemError(env, "socket");
  const mode_t before = umask(0777 & ~mode);
  const int bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const int code = errno;
  umask(before);
  if (bound != 0) {
    close(descriptor);
    throw SystemError(env, "bind", code);
  }
  if (listen(descriptor, kBacklog) != 0) {
    const int failure = errno;
    close(descriptor);
    unlink(path.c_str());
    throw SystemError(env, "listen", failure);
  }
  return Napi::Number::New(env, descriptor);
}

// listenerPort(descriptor) -> the port that a listening socket has.
Napi::Value ListenerPort(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  if (getsockname(NumberOf(info[0], "descriptor").Int32Value(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    throw SystemError(env, "getsockname");
  }
  const bool is_six = storage.ss_family == AF_INET6;
  const uint16_t port = is_six ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port : reinterpret_cast<sockaddr_in*>(&storage)->sin_port;
  return Napi::Number::New(env, ntohs(port));
}

Napi::Object Initialize(Napi::Env env, Napi::Object exports) {
  exports["openListener"] = Napi::Function::New(env, OpenListener, "openListener");
  exports["openUnixListener"] = Napi::Function::New(env, OpenUnixListener, "openUnixListener");
  exports["refuseConnections"] = Napi::Function::New(env, RefuseConnections, "refuseConnections");
  exports["listenerPort"] = Napi::Function::New(env, ListenerPort, "listenerPort");
  exports["listConnections"] = Napi::Function::New(env, sluice::ListConnections, "listConnections");
  exports["guardSweeps"] = Napi::Function::New(env, sluice::GuardSweeps, "guardSweeps");
  exports["hangUp"] = Napi::Function::New(env, sluice::HangUp, "hangUp");
  return exports;
}

}  // namespace

NODE_API_MODULE(sockets, Initialize)
