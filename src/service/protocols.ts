// What is spoken beside HTTP, as one listener: clamd's protocol and ICAP, each where it is configured, for the scans of an account that is found by its e-mail address.
import { readFileSync } from 'node:fs';
import { createNamedAccount } from '../account/users.js';
import type { Access, AccessControl } from '../admission/access.js';
import { ClamdConnection, type ClamdConnectionParts } from '../clamd/connection.js';
import { MachineFiles } from '../clamd/open-below.js';
import { versionOf } from '../clamd/protocol.js';
import type { Config } from '../config/config.js';
import type { Signatures } from '../engine/signatures.js';
import { messageOfError } from '../error-text.js';
import { Failure, Unavailable } from '../errors.js';
import { shownPath } from '../filename.js';
import { BLOCK_PAGE, tagOf } from '../icap/answers.js';
import { IcapConnection, type IcapConnectionParts, SectionRoom } from '../icap/connection.js';
import { ICAP_SECTIONS_BYTES } from '../limits.js';
import { createListener, type Listener } from '../listening.js';
import { type EventLog, seldom } from '../log.js';
import type { ScanParts } from '../scan/scan.js';
import type { StreamAccount } from '../scan/stream-scan.js';
import type { Queries } from '../store/postgres.js';
import type { Metrics } from './metrics.js';
import type { Parts } from './parts.js';
import { socketsAt } from './places.js';

interface ProtocolParts extends Pick<Parts, 'postgres' | 'signatures' | 'pool' | 'version' | 'descriptors' | 'places'> {
  readonly access: Pick<AccessControl, 'asUser' | 'refuse'>;
  readonly metrics: Pick<Metrics, 'refused' | 'turnedAway'>;
  readonly scans: ScanParts;
}

export function createProtocols(config: Config, log: EventLog, parts: ProtocolParts): Listener {
  const listeners = [createClamd(config, log, parts), createIcap(config, log, parts)].filter((each) => each !== null);
  return {
    listen() {
      for (const listener of listeners) listener.listen();
    },
    stopListening() {
      for (const listener of listeners) listener.stopListening();
    },
    async drain(limitMs) {
      await Promise.all(listeners.map((listener) => listener.drain(limitMs)));
    },
    async stop(graceMs) {
      await Promise.all(listeners.map((listener) => listener.stop(graceMs)));
    },
  };
}

/** Null: it isn't configured. */
function createClamd(config: Config, log: EventLog, parts: ProtocolParts): Listener | null {
  const { clamd } = config;
  if (clamd === null) return null;
  const { postgres, signatures, pool, scans, descriptors, places } = parts;
  const shared: ClamdConnectionParts = {
    scans,
    streamLimitBytes: config.streamLimitBytes,
    streamTimeoutMs: config.uploadTimeoutMs,
    pool,
    files: new MachineFiles(clamd.paths),
    account: openAccount(postgres.requests('clamd'), clamd.account, { ...parts, log, protocol: 'clamd' }),
    version() {
      const { engine } = signatures.serving;
      return engine === null ? 'ClamAV' : versionOf(engine);
    },
    reload: () => void signatures.reload(),
    onSurprise: tellOfSurprises(log),
    onRefusedPath: tellOfPaths(log),
  };
  return createListener({
    share: places.shareOf('clamd'),
    sockets: [...socketsAt(places, 'clamdSocket', 'unix'), ...socketsAt(places, 'clamdPort', 'tcp')],
    networks: clamd.networks,
    connections: descriptors.clamdConnections,
    takesFiles: () => shared.files.hasRoom,
    onListening: () => log.info({ socket: clamd.socketPath, port: clamd.port }, "clamd's protocol"),
    open: (peer) => new ClamdConnection(shared, peer),
  });
}

/** The client's own log seldom says more than that it failed. One path for each reason, once a minute. */
function tellOfPaths(log: EventLog): ClamdConnectionParts['onRefusedPath'] {
  let path = '';
  const tell = seldom((reason) =>
    log.warn(
      { path, reason },
      "a path that a client of clamd's protocol has named can't be looked at: CLAMD_PATHS says which can",
    ),
  );
  return (asked, reason) => {
    path = shownPath(Buffer.from(asked, 'latin1').toString());
    tell(reason);
  };
}

/** Null: it isn't configured. */
function createIcap(config: Config, log: EventLog, parts: ProtocolParts): Listener | null {
  const { icap } = config;
  if (icap === null) return null;
  const { postgres, signatures, scans, version } = parts;
  const { icapConnections: connections } = parts.descriptors;
  const shared: IcapConnectionParts = {
    scans,
    sections: new SectionRoom(ICAP_SECTIONS_BYTES),
    version,
    connections,
    limitBytes: config.streamLimitBytes,
    bodyTimeoutMs: config.uploadTimeoutMs,
    incomplete: icap.incomplete,
    blockPage: icap.blockPage === null ? BLOCK_PAGE : readBlockPage(icap.blockPage),
    tag: tagKeeper(signatures),
    account: openAccount(postgres.requests('icap'), icap.account, { ...parts, log, protocol: 'icap' }),
    onSurprise: tellOfSurprises(log),
  };
  return createListener({
    share: parts.places.shareOf('icap'),
    sockets: socketsAt(parts.places, 'icapPort', 'tcp'),
    networks: icap.allowNetworks,
    connections,
    onListening: () => log.info({ port: icap.port }, 'ICAP'),
    open: (peer) => new IcapConnection(shared, peer),
  });
}

/** Throws with the name of the variable. */
function readBlockPage(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`ICAP_BLOCK_PAGE can't be read: ${messageOfError(error)}`);
  }
}

/** It is in each answer, and made once for an engine. */
function tagKeeper(signatures: Signatures): () => string {
  let epoch = 0;
  let tag = tagOf(null);
  return () => {
    const { engine } = signatures.serving;
    if ((engine?.epoch ?? 0) !== epoch) {
      epoch = engine?.epoch ?? 0;
      tag = tagOf(engine);
    }
    return tag;
  };
}

function tellOfSurprises(log: EventLog): (requestId: string, error: unknown) => void {
  return (requestId, error) => log.error({ requestId, err: error }, 'unforeseen error');
}

interface NamedAccountParts extends Pick<ProtocolParts, 'access' | 'pool' | 'metrics'> {
  readonly log: EventLog;
  readonly protocol: 'clamd' | 'icap';
}

/** Why, while there is no such account. */
const MISSING = { clamd: 'clamdAccountMissing', icap: 'icapAccountMissing' } as const;

/** Asked for a unit for each scan, and refused what its part of the queue has no room for. */
function openAccount(sql: Queries, email: string, parts: NamedAccountParts): StreamAccount {
  const { access, pool, metrics, log, protocol } = parts;
  const missing = MISSING[protocol];
  const account = createNamedAccount(sql, email);
  account.find().then(
    (user) => {
      if (user === null) log.warn(`${new Unavailable(missing).message}: what it asks for is refused until it is made`);
    },
    // The database gives no answer: the first scan asks it again, and says so.
    () => undefined,
  );
  // Clients' own logs seldom say more than that something failed, and some clients take it for clean.
  const tell = seldom((reason) =>
    log.warn({ protocol, reason }, 'scans of clients are refused: some of them take that for clean'),
  );
  const turnAway = (problem: unknown): void => {
    metrics.turnedAway(protocol, problem instanceof Failure ? problem.label : 'internal');
    if (problem instanceof Failure) tell(problem.message);
  };
  const admit = async (): Promise<Access> => {
    const user = await account.find();
    // It may be made later, and removed at any time.
    if (user === null) throw new Unavailable(missing);
    if (user.suspended_at !== null) throw new Failure('accountSuspended');
    return await access.asUser({ userId: user.id, plan: user.plan, ownLimit: user.own_limit });
  };
  return {
    async admit() {
      try {
        const answer = await admit();
        const { outcome } = answer;
        if (outcome !== 'admitted') turnAway(new Failure(outcome === 'exhausted' ? 'quotaExhausted' : outcome));
        return answer;
      } catch (error) {
        turnAway(error);
        throw error;
      }
    },
    refusal(bytesMost) {
      const user = pool.queue.isCrowded ? account.known() : null;
      const reason = user === null ? null : pool.refusal(user.id, bytesMost);
      if (user === null || reason !== 'queueShareFull') return null;
      access.refuse(user.id);
      metrics.refused(reason);
      return new Unavailable(reason);
    },
  };
}
