// How many file descriptors this process may have, and what of them connections may take.
import { readdirSync, readFileSync } from 'node:fs';
import { ARRIVING_CONTENTS, CLAMD_FILE_DESCRIPTORS } from '../limits.js';

/** Databases, the journal, logs, the metrics server, reloads. */
const STORES = 64;
/** A thread's own, what unpacking one content inside the other takes, and the content of an accepted scan that is read for it. */
const PER_THREAD = 25;
/** Downloads may have this share of all, and no more. */
const DOWNLOADS_SHARE = 1 / 8;
/** Likewise the connections of clamd's protocol, and those of ICAP. */
const PROTOCOL_SHARE = 1 / 8;
/** Below it a service can't be had. */
const CONNECTIONS_MIN = 16;
/** Each costs memory in the kernel and here, some KB. */
const CONNECTIONS_MAX = 100_000;

export interface DescriptorPlan {
  readonly limit: number;
  readonly connections: number;
  readonly downloads: number;
  /** Of clamd's protocol. */
  readonly clamdConnections: number;
  readonly icapConnections: number;
  /** The limit is too low for what is wanted. */
  readonly isScarce: boolean;
}

export interface DescriptorRequest {
  /** Null: as many as there is room for. */
  readonly connections: number | null;
  readonly downloads: number;
  readonly scanThreads: number;
  /** Of clamd's protocol; 0: it isn't spoken. */
  readonly clamdConnections: number;
  /** The same of ICAP. */
  readonly icapConnections: number;
}

/** To be asked before the first connection. Node has raised the soft limit to the hard one by then. */
export function planDescriptors(request: DescriptorRequest): DescriptorPlan {
  const limit = softLimit();
  const downloads = Math.min(request.downloads, Math.max(1, Math.floor(limit * DOWNLOADS_SHARE)));
  const protocolMost = Math.max(CONNECTIONS_MIN, Math.floor(limit * PROTOCOL_SHARE));
  const clamdConnections = Math.min(request.clamdConnections, protocolMost);
  const icapConnections = Math.min(request.icapConnections, protocolMost);
  const clamd = clamdConnections === 0 ? 0 : clamdConnections + CLAMD_FILE_DESCRIPTORS;
  const own = openNow() + STORES + ARRIVING_CONTENTS + PER_THREAD * request.scanThreads;
  const room = limit - own - downloads - clamd - icapConnections;
  const connections = Math.max(CONNECTIONS_MIN, Math.min(room, request.connections ?? CONNECTIONS_MAX));
  return { limit, connections, downloads, clamdConnections, icapConnections, isScarce: room < CONNECTIONS_MIN };
}

function softLimit(): number {
  const [, soft = ''] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft);
}

function openNow(): number {
  return readdirSync('/proc/self/fd').length;
}
