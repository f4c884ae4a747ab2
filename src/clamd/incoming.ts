// What a client sends: by TCP as Node reads it, by a UNIX socket with the open files that come along, where there is the addon that hears of them.
import type { Socket } from 'node:net';
import { type ProcessAddon, processAddon } from '../process-addon.js';

export interface IncomingTarget {
  /** `descriptors` are the target's to close. */
  onBytes(bytes: Buffer, descriptors: readonly number[]): void;
  /** The client sends nothing more; it may still read. */
  onEnd(): void;
}

export interface Incoming {
  /** Whether open files are heard of. */
  readonly hasDescriptors: boolean;
  resume(): void;
  pause(): void;
}

const NONE: readonly number[] = [];

/** The socket must not have been read from. It is paused at first. */
export function incomingOf(socket: Socket, way: 'unix' | 'tcp', target: IncomingTarget): Incoming {
  const addon = way === 'unix' ? processAddon() : null;
  const descriptor = addon === null ? null : descriptorOf(socket);
  if (addon === null || descriptor === null) return plainIncoming(socket, target);
  return withDescriptors(socket, { addon, descriptor }, target);
}

function plainIncoming(socket: Socket, target: IncomingTarget): Incoming {
  socket.on('data', (bytes: Buffer) => target.onBytes(bytes, NONE));
  socket.on('end', () => target.onEnd());
  socket.pause();
  return { hasDescriptors: false, resume: () => void socket.resume(), pause: () => void socket.pause() };
}

interface Received {
  readonly addon: ProcessAddon;
  readonly descriptor: number;
}

/** Node writes to the socket, and hears of nothing that comes: its end on both sides is put together here. */
function withDescriptors(socket: Socket, { addon, descriptor }: Received, target: IncomingTarget): Incoming {
  let isAtEnd = false;
  const number = addon.openReceiver(descriptor, (bytes, descriptors, end) => {
    if (end === null) target.onBytes(bytes, descriptors);
    else if (end === 'error') socket.destroy();
    else {
      isAtEnd = true;
      target.onEnd();
      if (socket.writableFinished) socket.destroy();
    }
  });
  socket.on('finish', () => {
    if (isAtEnd) socket.destroy();
  });
  socket.on('close', () => addon.closeReceiver(number));
  return {
    hasDescriptors: true,
    resume() {
      if (!isAtEnd && !socket.destroyed) addon.startReceiver(number);
    },
    pause() {
      if (!socket.destroyed) addon.stopReceiver(number);
    },
  };
}

/** Node has it on its handle alone. */
function descriptorOf(socket: Socket): number | null {
  const handle: unknown = Reflect.get(socket, '_handle');
  const descriptor: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : null;
  return typeof descriptor === 'number' && descriptor >= 0 ? descriptor : null;
}
