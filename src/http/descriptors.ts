// How many file descriptors this process may have, and what of them connections may take.
import { readdirSync, readFileSync } from 'node:fs';
import { ARRIVING_CONTENTS, CLAMD_FILE_DESCRIPTORS } from '../limits.js';

/** Databases, the journal, logs, the metrics server, reloads. */
const STORES = 64;
/** A thread's own, what unpacking one content inside the other takes, and the content of an accepted scan that is read for it. */
const PER_THREAD = 25;
/** Downloads may have this share of all, and no more. */
const DOWNLOADS_SHARE = 1 / 8;
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
  const clamdFiles = request.clamdConnections === 0 ? 0 : CLAMD_FILE_DESCRIPTORS;
  const own = openNow() + STORES + ARRIVING_CONTENTS + PER_THREAD * request.scanThreads;
  const wanted = [request.connections ?? CONNECTIONS_MAX, request.clamdConnections, request.icapConnections];
  const shares = shareOut(limit - own - downloads - clamdFiles, wanted);
  const [connections = 0, clamdConnections = 0, icapConnections = 0] = shares.map((share, index) =>
    Math.max(share, Math.min(wanted[index] ?? 0, CONNECTIONS_MIN)),
  );
  const isScarce = connections + clamdConnections + icapConnections > shares.reduce((sum, share) => sum + share);
  return { limit, connections, downloads, clamdConnections, icapConnections, isScarce };
}

/** The same to each; what one doesn't want the others have. */
function shareOut(room: number, wanted: readonly number[]): number[] {
  const shares = [...wanted];
  let left = Math.max(0, room);
  const modestFirst = [...wanted.entries()].sort(([, one], [, other]) => one - other);
  for (const [before, [index, want]] of modestFirst.entries()) {
    const share = Math.min(want, Math.floor(left / (wanted.length - before)));
    shares[index] = share;
    left -= share;
  }
  return shares;
}

function softLimit(): number {
  const [, soft = ''] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft);
}

function openNow(): number {
  return readdirSync('/proc/self/fd').length;
}
