// ICAP put together: the account that its scans are of, what it tells of the engine, and its listener.
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.js';
import type { Signatures } from '../engine/signatures.js';
import { messageOfError } from '../error-text.js';
import type { DescriptorPlan } from '../http/descriptors.js';
import { BLOCK_PAGE, tagOf } from '../icap/answers.js';
import { Connection, type ConnectionParts } from '../icap/connection.js';
import { createListener, type Listener } from '../listening.js';
import type { EventLog } from '../log.js';
import type { ScanParts } from '../scan/scan.js';
import type { Postgres } from '../store/postgres.js';
import { type Places, socketsAt } from './places.js';
import { openProtocolAccount, type ProtocolParts } from './protocol-account.js';

export interface IcapParts extends Omit<ProtocolParts, 'missing'> {
  readonly scans: ScanParts;
  readonly postgres: Postgres;
  readonly signatures: Signatures;
  readonly version: string;
  readonly descriptors: DescriptorPlan;
  readonly places: Places;
}

/** Null: it isn't configured. */
export function createIcap(config: Config, log: EventLog, parts: IcapParts): Listener | null {
  const { icap } = config;
  if (icap === null) return null;
  const { postgres, signatures, scans, version } = parts;
  const { icapConnections: connections } = parts.descriptors;
  const shared: ConnectionParts = {
    scans,
    version,
    connections,
    limitBytes: config.streamLimitBytes,
    bodyTimeoutMs: config.uploadTimeoutMs,
    incomplete: icap.incomplete,
    blockPage: icap.blockPage === null ? BLOCK_PAGE : readBlockPage(icap.blockPage),
    tag: tagKeeper(signatures),
    account: openProtocolAccount(postgres.requests('icap'), icap.account, { ...parts, missing: 'icapAccountMissing' }),
    onSurprise: (requestId, error) => log.error({ requestId, err: error }, 'unforeseen error'),
  };
  return createListener({
    share: parts.places.shareOf('icap'),
    sockets: socketsAt(parts.places, 'icapPort', 'tcp'),
    networks: icap.allowNetworks,
    connections,
    onListening: () => log.info({ port: icap.port }, 'ICAP'),
    open: (peer) => new Connection(shared, peer),
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
    const state = signatures.state();
    const engine = state.kind === 'ready' ? state.engine : null;
    if ((engine?.epoch ?? 0) !== epoch) {
      epoch = engine?.epoch ?? 0;
      tag = tagOf(engine);
    }
    return tag;
  };
}
