// SPDX-License-Identifier: GPL-2.0-only
// What the kernel knows of this process's connections and the HTTP library doesn't tell: from where each is, and which do nothing.
#include "connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "arguments.h"

namespace sluice {
namespace {

constexpr double kBusy = -1;

uint16_t PortIn(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

std::string AddressIn(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text, sizeof(text));
  }
  return text;
}

bool InfoOf(int descriptor, tcp_info* info) {
  *info = {};
  socklen_t size = sizeof(*info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, info, &size) != 0) return false;
  return size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof(info->tcpi_bytes_received);
}

// How long the connection has been without a request: nothing has arrived since something was sent, or nothing at all. What
// nobody can tell, or has not been taken by the client yet, is busy.
double IdleMillis(int descriptor) {
  tcp_info info;
  if (!InfoOf(descriptor, &info) || info.tcpi_unacked > 0) return kBusy;
  if (info.tcpi_bytes_received == 0) return info.tcpi_last_data_recv;
  return info.tcpi_last_data_sent < info.tcpi_last_data_recv ? info.tcpi_last_data_sent : kBusy;
}

}  // namespace

// listConnections(port) -> [{descriptor, address, idleMs}]: those that were accepted on the port; idleMs -1: a request is under way.
Napi::Value ListConnections(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const uint32_t port = NumberOf(info[0], "port").Uint32Value();
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) throw SystemError(env, "/proc/self/fd");
  Napi::Array list = Napi::Array::New(env);
  for (dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const int descriptor = std::atoi(entry->d_name);
    sockaddr_storage own = {};
    sockaddr_storage peer = {};
    socklen_t own_length = sizeof(own);
    socklen_t peer_length = sizeof(peer);
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 || PortIn(own) != port) continue;
    // A listening socket has no peer.
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) continue;
    Napi::Object connection = Napi::Object::New(env);
    connection["descriptor"] = Napi::Number::New(env, descriptor);
    connection["address"] = Napi::String::New(env, AddressIn(peer));
    connection["idleMs"] = Napi::Number::New(env, IdleMillis(descriptor));
    list[list.Length()] = connection;
  }
  closedir(folder);
  return list;
}

// hangUp(descriptor): both directions end; the HTTP library hears of it and closes the connection as any other that ended.
Napi::Value HangUp(const Napi::CallbackInfo& info) {
  shutdown(NumberOf(info[0], "descriptor").Int32Value(), SHUT_RDWR);
  return info.Env().Undefined();
}

}  // namespace sluice
