// Where clamd's protocol and ICAP are spoken: listening sockets that outlive a server process, as that of HTTP does. Opened by the supervisor, inherited by each server.
import { chownSync, closeSync, lstatSync, readFileSync, rmSync } from 'node:fs';
import type { Config } from '../config/config.js';
import { joinShares, SHARES, type ShareOf } from '../door.js';
import { messageOfError } from '../error-text.js';
import { canShareListener, openListener, openUnixListener, refuseConnections } from '../http/connections.js';
import type { ListeningSocket, Way } from '../peers.js';
import { answers } from '../store/data-lock.js';

const placeNames = ['clamdSocket', 'clamdPort', 'icapPort'] as const;
type PlaceName = (typeof placeNames)[number];

export interface Places {
  /** Descriptors of listening sockets. */
  readonly sockets: ReadonlyMap<PlaceName, number>;
  /** What of the connections is this process's. */
  readonly shareOf: ShareOf;
  /** Nobody begins to connect any more. Who has is taken in by the processes that have the sockets, until they close theirs. */
  refuse(): void;
  /** The same, and this process doesn't have the sockets any more. */
  close(): void;
  /** What lies in the file system is removed, if it still does. */
  release(): void;
}

/** As a listener takes it: none or one. */
export function socketsAt({ sockets }: Pick<Places, 'sockets'>, name: PlaceName, way: Way): ListeningSocket[] {
  const descriptor = sockets.get(name);
  return descriptor === undefined ? [] : [{ way, descriptor }];
}

type PlaceConfig = Pick<Config, 'clamd' | 'icap'>;

/** Rejects when one of them can't be had. */
export async function openPlaces({ clamd, icap }: PlaceConfig): Promise<Places> {
  const places = new Map<PlaceName, number>();
  if ((clamd !== null || icap !== null) && !canShareListener()) {
    throw new Error('CLAMD_SOCKET, CLAMD_PORT and ICAP_PORT need the native addon: run "npm run build"');
  }
  const port = clamd?.port ?? null;
  if (clamd !== null && port !== null) places.set('clamdPort', await openPort(port, clamd.networks, 'CLAMD_PORT'));
  if (icap !== null) places.set('icapPort', await openPort(icap.port, icap.allowNetworks, 'ICAP_PORT'));
  let path = clamd?.socketPath ?? null;
  if (clamd !== null && path !== null) places.set('clamdSocket', await openSocket(path, clamd));
  /** Once: another service may have its place afterwards. */
  const release = (): void => {
    if (path !== null) rmSync(path, { force: true });
    path = null;
  };
  const refuse = (): void => {
    release();
    for (const [name, descriptor] of places) if (name !== 'clamdSocket') refuseConnections(descriptor);
  };
  return {
    sockets: places,
    shareOf: () => null,
    refuse,
    close() {
      refuse();
      for (const descriptor of places.values()) closeSync(descriptor);
      places.clear();
    },
    release,
  };
}

/** Those that a process was given, in this order, from a descriptor on. They are its giver's to release. `sharePlace`: its place among the processes. */
export function inheritedPlaces(names: readonly string[], firstDescriptor: number, sharePlace: number | null): Places {
  const places = new Map<PlaceName, number>();
  for (const [index, name] of names.entries()) {
    const known = placeNames.find((each) => each === name);
    if (known !== undefined) places.set(known, firstDescriptor + index);
  }
  const shares = names.indexOf(SHARES);
  const isAlone = shares < 0 || sharePlace === null;
  const shareOf: ShareOf = isAlone ? () => null : joinShares(firstDescriptor + shares, sharePlace);
  return { sockets: places, shareOf, refuse: () => undefined, close: () => undefined, release: () => undefined };
}

/** Without networks it is the loopback's alone. */
async function openPort(port: number, networks: readonly string[], variable: string): Promise<number> {
  if (networks.length === 0) return await openListener('127.0.0.1', port, variable);
  try {
    return await openListener('::', port, variable);
  } catch {
    // The machine may have no IPv6.
    return await openListener('0.0.0.0', port, variable);
  }
}

async function openSocket(path: string, settings: NonNullable<Config['clamd']>): Promise<number> {
  const { socketMode, socketGroup } = settings;
  try {
    const group = socketGroup === null ? null : groupOf(socketGroup);
    await removeDeadSocket(path);
    const descriptor = openUnixListener(path, socketMode);
    if (group !== null) chownSync(path, process.getuid?.() ?? -1, group);
    return descriptor;
  } catch (error) {
    throw new Error(`Cannot listen on ${path}: ${messageOfError(error)}`);
  }
}

/** Node has no call for names of groups. Throws for one that /etc/group doesn't have. */
function groupOf(group: string): number {
  if (/^\d+$/.test(group)) return Number(group);
  const lines = readFileSync('/etc/group', 'utf8').split('\n');
  const line = lines.find((each) => each.startsWith(`${group}:`));
  if (line === undefined) throw new Error(`there is no group ${group}`);
  return Number(line.split(':')[2]);
}

/** Of a process that was killed. Rejects when it is anything else, or somebody listens there. */
async function removeDeadSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error('there is something else than a socket');
  if (await answers(path)) throw new Error('another process listens there');
  rmSync(path, { force: true });
}
