// SPDX-License-Identifier: GPL-2.0-only
// Connections of clients, by the system calls alone: an epoll of our own, which the event loop watches, and what is done with its sockets. With them come
// the open files that a client sends by a UNIX socket (SCM_RIGHTS): Node would drop these.
#pragma once

#include <napi.h>

namespace sluice::peers {

// openPoller(onReady) -> number. `onReady()`: called in the event loop while anything is ready.
Napi::Value OpenPoller(const Napi::CallbackInfo& info);
// closePoller(number): `onReady` isn't called any more. All that was accepted is closed.
Napi::Value ClosePoller(const Napi::CallbackInfo& info);
// readySockets(poller, events) -> how many; into a Uint32Array, for each its number and its bits (1: can be read, 2: can be written, 4: the client sends
// nothing more, 8: nor does it read). A connection is reported once for each change; a listening socket as long as somebody waits there.
Napi::Value Ready(const Napi::CallbackInfo& info);
// watchListener(poller, descriptor) -> number. The descriptor stays the caller's, which must not close it before closeSocket.
Napi::Value WatchListener(const Napi::CallbackInfo& info);
// waitingAt(descriptor) -> how many wait at a listening socket; null: nobody can tell, as of a UNIX socket.
Napi::Value Waiting(const Napi::CallbackInfo& info);
// acceptPeer(poller, descriptor) -> number; 0: nobody waits; -1: it can't be done now.
Napi::Value Accept(const Napi::CallbackInfo& info);
// acceptDescriptor(descriptor) -> that of a connection, which is the caller's; -1: it can't be done now; -2: nobody waits.
Napi::Value AcceptDescriptor(const Napi::CallbackInfo& info);
// peerAddress(number) -> its IP address; null: it is of this machine.
Napi::Value Address(const Napi::CallbackInfo& info);
// receiveFrom(number, bytes, descriptors) -> how many bytes; 0: the client sends nothing more; -1: not now; -2: the connection has failed. The first word of
// the Int32Array is how many open files came along, and those behind it are they: the caller's to close.
Napi::Value Receive(const Napi::CallbackInfo& info);
// sendTo(number, bytes, isLast) -> how many bytes were taken; -2: the connection has failed. Where it takes fewer, readySockets reports when it takes more.
// Of the last ones a packet may wait for endSending.
Napi::Value Send(const Napi::CallbackInfo& info);
// endSending(number): the client reads the end, and may still send.
Napi::Value EndSending(const Napi::CallbackInfo& info);
// closeSocket(number): a connection ends; a listening socket is not watched any more, and stays open.
Napi::Value CloseSocket(const Napi::CallbackInfo& info);

}  // namespace sluice::peers
