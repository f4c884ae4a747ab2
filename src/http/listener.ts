// The listening socket as something that outlives a server process; sole loader of the sockets addon. Inherited by each server,
// it keeps connections that nobody has accepted yet: one that closes with SO_REUSEPORT resets them (net.ipv4.tcp_migrate_req).

import { lookup } from 'node:dns/promises';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { socketsAddonPath } from '../paths.js';

interface SocketsAddon {
  openListener(address: string, port: number): number;
  replaceListener(port: number, descriptor: number): void;
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

/** Listens, accepts nothing, and returns the descriptor. Rejects with the reason when the address can't be had. */
export async function openListener(host: string, port: number): Promise<number> {
  try {
    const { address } = await lookup(host);
    return addon().openListener(address, port);
  } catch (error) {
    throw new Error(`Cannot listen on ${host}:${port}: ${whyNot(error)}`);
  }
}

export function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isTaken = 'code' in error && error.code === 'EADDRINUSE';
  return isTaken ? 'another program listens there; set PORT to a free one' : error.message;
}

/** Puts the inherited socket in the place of the one that listens on the port; before the event loop has polled that. */
export function takeOver(port: number, descriptor: number): void {
  addon().replaceListener(port, descriptor);
}
