// SPDX-License-Identifier: GPL-2.0-only
// Sorts what libclamav says on a thread: all of it is kept for reasons, and some of it means that a scan went blind.
#include "listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace sluice {
namespace {

// libclamav can say the same of every line of a database.
constexpr size_t kMessagesKept = 20;

thread_local Listener* listener_of_this_thread = nullptr;

// Parsers go on without what they could not unpack, and libclamav then calls the file clean, even when it could not
// make its temporary folder at all. Most of them log it; a word too many here errs on the safe side. Some unpackers
// of executables say nothing, so the storage is probed before and after a scan as well.
bool TellsOfFailedStorage(const char* message) {
  constexpr std::array kTraces{"temporary", "temp file", "tmp ", "tempfile", "write", "writing", "t create", "to create"};
  return std::any_of(kTraces.begin(), kTraces.end(),
                     [message](const char* trace) { return std::strstr(message, trace) != nullptr; });
}

}  // namespace

Listening::Listening(Listener& listener) {
  listener_of_this_thread = &listener;
  errno = 0;  // See Hear.
}

Listening::~Listening() { listener_of_this_thread = nullptr; }

void Hear(const char* message) noexcept {
  // Of the call that failed last on this thread, since the listening began. A content can choose what is logged, but not this.
  const int error = errno;
  Listener* listener = listener_of_this_thread;
  if (listener == nullptr) return;
  if (TellsOfFailedStorage(message)) {
    listener->storage_failed = true;
    if (error == EMFILE || error == ENFILE) listener->lacked_descriptors = true;
  }
  try {
    std::string line(message);
    line.erase(line.find_last_not_of(" \r\n") + 1);
    if (listener->messages.size() == kMessagesKept) listener->messages.erase(listener->messages.begin());
    listener->messages.push_back(std::move(line));
  } catch (const std::bad_alloc&) {
    listener->messages.clear();  // Memory is what is short, and the load or scan will say so.
  }
}

}  // namespace sluice
