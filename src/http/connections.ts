// The connections of a server: how many the file descriptors of its process allow, what an address may have of them, and which end when others need room; and the
// listening socket, which outlives a server process (sole loader of the sockets addon): inherited by each server, it keeps connections that nobody has accepted yet, where one
// that closes with SO_REUSEPORT resets them (net.ipv4.tcp_migrate_req).
import { lookup } from 'node:dns/promises';
import { closeSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { codeOf, messageOfError } from '../error-text.js';
import { ARRIVING_CONTENTS, CLAMD_FILE_DESCRIPTORS } from '../limits.js';
import { socketsAddonPath } from '../paths.js';

export interface ConnectionLimits {
  readonly limit: number;
  /** Of one address; null: as many as there are. */
  readonly perAddress: number | null;
  /** What counts as one address. */
  readonly groupOf: (address: string) => string;
}

interface Kernel {
  list(): readonly KernelConnection[];
  hangUp(descriptor: number): void;
}

/** A client may take so long from its connection to its request before it is idle: more than the way around the world. */
const IDLE_MS = 300;
/** Between two looks at all connections, each of which costs microseconds for every one. */
const LOOK_MS = 200;
/** Of an address that goes on where it has about its share: so much of it is free after a look, for those that come until the next one. */
const SHARE_FREED = 1 / 4;

/** `kernel` null: nothing can be said of connections but how many there are, and what is beyond the limit is closed. */
export function createConnections({ limit, perAddress, groupOf }: ConnectionLimits, kernel: Kernel | null) {
  let count = 0;
  let lookedMs = Number.NEGATIVE_INFINITY;
  /** By address, since the last look: too high by those that have ended. Null: nobody can have more than a share. */
  let counts: Map<string, number> | null = null;

  function look(): { readonly connections: readonly KernelConnection[]; readonly groups: ReadonlyMap<string, string> } {
    lookedMs = performance.now();
    const connections = kernel?.list() ?? [];
    const groups = new Map<string, string>();
    counts = new Map();
    for (const { address } of connections) {
      const group = groups.get(address) ?? groupOf(address);
      groups.set(address, group);
      counts.set(group, (counts.get(group) ?? 0) + 1);
    }
    return { connections, groups };
  }

  /** Returns how many. */
  function end(connections: readonly KernelConnection[], wanted: number): number {
    const idle = connections.filter(({ idleMs }) => idleMs >= IDLE_MS).sort((one, other) => other.idleMs - one.idleMs);
    const ended = idle.slice(0, wanted);
    for (const { descriptor } of ended) kernel?.hangUp(descriptor);
    return ended.length;
  }

  /** Whether one more of this address may stay; `share` is what it may have. */
  function isWithin(share: number, group: string): boolean {
    if (counts !== null) {
      counts.set(group, countOf(group) + 1);
      if (countOf(group) <= share) return true;
    }
    if (counts === null || performance.now() - lookedMs >= LOOK_MS) {
      // The new one is among those that the kernel knows.
      const { connections, groups } = look();
      const wanted = Math.max(1, Math.ceil(share * SHARE_FREED)) - (share + 1 - countOf(group));
      const own = connections.filter(({ address }) => groups.get(address) === group);
      const freed = end(own, Math.max(0, wanted));
      counts?.set(group, countOf(group) - freed);
      if (freed > 0 || countOf(group) <= share) return true;
    }
    counts?.set(group, countOf(group) - 1);
    return false;
  }

  const countOf = (group: string): number => counts?.get(group) ?? 0;

  return {
    count: (): number => count,
    isFull: (): boolean => count >= limit,
    /** Counts one more; false: it is to be closed at once. */
    opened(addressOf: () => string): boolean {
      count += 1;
      if (kernel === null) return count <= limit;
      if (perAddress !== null && count > perAddress) return isWithin(perAddress, groupOf(addressOf()));
      counts = null;
      return true;
    },
    closed(): void {
      count -= 1;
    },
    /** Ends up to so many that have no request, those first that have had none for longest. */
    makeRoom(wanted: number): void {
      if (performance.now() - lookedMs < LOOK_MS) return;
      end(look().connections, wanted);
    },
  };
}

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

interface DescriptorRequest {
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

const openNow = (): number => readdirSync('/proc/self/fd').length;

interface SocketsAddon {
  openListener(address: string, port: number): number;
  openUnixListener(path: string, mode: number): number;
  listenerPort(descriptor: number): number;
  refuseConnections(descriptor: number): void;
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
export const canShareListener = (): boolean => existsSync(socketsAddonPath);

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
export const openUnixListener = (path: string, mode: number): number => addon().openUnixListener(path, mode);

/**
 * Of a socket with a port: nobody begins to connect from now on, in any process that has it, for good. Who has begun can still be accepted, until `HANDSHAKE_MS` later.
 */
export const refuseConnections = (listener: number): void => addon().refuseConnections(listener);

/** For who will not accept from it himself: those that do are to stop now. */
export function giveUp(listener: number): void {
  refuseConnections(listener);
  closeSync(listener);
}

/** By the code of the error. CLAMD_PORT, ICAP_PORT and ADMIN_PORT have the loopback for their host. */
function remedyOf(code: string | null, variable: string): string | null {
  const ofHost = variable === 'PORT' ? '; set HOST to one that it has' : '';
  switch (code) {
    case 'EADDRINUSE':
      return `another program listens there; set ${variable} to a free one`;
    case 'EACCES':
      return `ports below 1024 are for root and CAP_NET_BIND_SERVICE; set ${variable} to a higher one`;
    case 'EADDRNOTAVAIL':
      return `this machine has no such address${ofHost}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'no address is known of that name; set HOST to an address of this machine';
    default:
      return null;
  }
}

export const whyNot = (error: unknown, variable = 'PORT'): string =>
  remedyOf(codeOf(error), variable) ?? messageOfError(error);

export const portOf = (listener: number): number => addon().listenerPort(listener);

/** The connections that were accepted on the port. Throws without a descriptor to look with. */
export const listConnections = (port: number): KernelConnection[] => addon().listConnections(port);

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
export const canGuardSweeps = (): boolean => canShareListener() && !EDGE_TRIGGERED.includes(process.versions.uv);

/**
 * From now on uWebSockets.js, of which there must be a server in this thread, ends no connection as silent whose next request has arrived and is not read yet.
 * False: it has another timer than we know, and goes on as it does.
 */
export const guardSweeps = (): boolean => addon().guardSweeps();
