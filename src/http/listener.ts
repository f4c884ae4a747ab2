// The listening socket as something that outlives a server process; sole loader of the sockets addon. Inherited by each server,
// it keeps connections that nobody has accepted yet: one that closes with SO_REUSEPORT resets them (net.ipv4.tcp_migrate_req).

import { lookup } from 'node:dns/promises';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { codeOf, messageOfError } from '../error-text.js';
import { socketsAddonPath } from '../paths.js';

interface SocketsAddon {
  openListener(address: string, port: number): number;
  openUnixListener(path: string, mode: number): number;
  listenerPort(descriptor: number): number;
  listConnections(port: number): KernelConnection[];
  hangUp(descriptor: number): void;
  guardSweeps(): boolean;
}

/** A connection as the kernel sees it. */
export interface KernelConnection {
  readonly descriptor: number;
  readonly address: string;
  /** Since when it has no request; -1: it has one, or nobody can tell. */
  readonly idleMs: number;
}

let loadedAddon: SocketsAddon | null = null;

function addon(): SocketsAddon {
  if (loadedAddon === null) {
    const exported: SocketsAddon = createRequire(import.meta.url)(socketsAddonPath);
    loadedAddon = exported;
  }
  return loadedAddon;
}

/** Whether there is an addon: it needs a compiler at the installation. */
export function canShareListener(): boolean {
  return existsSync(socketsAddonPath);
}

/** Listens, accepts nothing, and returns the descriptor. Rejects with the reason when the address can't be had. `variable`: that names the port. */
export async function openListener(host: string, port: number, variable = 'PORT'): Promise<number> {
  try {
    const { address } = await lookup(host);
    return addon().openListener(address, port);
  } catch (error) {
    throw new Error(`Cannot listen on ${host}:${port}: ${whyNot(error, variable)}`);
  }
}

/** The same of a UNIX socket, which has its mode from its first moment on. */
export function openUnixListener(path: string, mode: number): number {
  return addon().openUnixListener(path, mode);
}

export function whyNot(error: unknown, variable = 'PORT'): string {
  const isTaken = codeOf(error) === 'EADDRINUSE';
  return isTaken ? `another program listens there; set ${variable} to a free one` : messageOfError(error);
}

export function portOf(listener: number): number {
  return addon().listenerPort(listener);
}

/** The connections that were accepted on the port. Throws without a descriptor to look with. */
export function listConnections(port: number): KernelConnection[] {
  return addon().listConnections(port);
}

/** Ends a connection that was listed. To be called before the next turn of the event loop: its descriptor may belong to another connection then. */
export function hangUp(descriptor: number): void {
  addon().hangUp(descriptor);
}

/**
 * These versions of libuv hear only once that another thread wakes them, and a look from outside would take that from them: a scan's verdict would lie there
 * until something else happens (https://github.com/libuv/libuv/issues/4584). Node 22.12 has one of them.
 */
const EDGE_TRIGGERED = ['1.49.0', '1.49.1'];

/** Whether anybody but the event loop may ask what is ready for it. */
export function canGuardSweeps(): boolean {
  return canShareListener() && !EDGE_TRIGGERED.includes(process.versions.uv);
}

/**
 * From now on uWebSockets.js, of which there must be a server in this thread, ends no connection as silent whose next request has arrived and is not read yet.
 * False: it has another timer than we know, and goes on as it does.
 */
export function guardSweeps(): boolean {
  return addon().guardSweeps();
}
