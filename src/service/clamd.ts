// Clamd's protocol put together: the account that its scans are of, what it tells of the engine, and its listener.
import { versionOf } from '../clamd/commands.js';
import { Connection, type ConnectionParts } from '../clamd/connection.js';
import type { Config } from '../config/config.js';
import type { Signatures } from '../engine/signatures.js';
import type { ScanPool } from '../engine/threads/pool.js';
import type { DescriptorPlan } from '../http/descriptors.js';
import { CLAMD_FILE_COMMANDS, CLAMD_FILE_COMMANDS_WAITING } from '../limits.js';
import { createListener, type Listener } from '../listening.js';
import type { EventLog } from '../log.js';
import type { ScanParts } from '../scan/scan.js';
import type { Postgres } from '../store/postgres.js';
import { createLimiter } from '../waiting/limiter.js';
import { type Places, socketsAt } from './places.js';
import { openProtocolAccount, type ProtocolParts } from './protocol-account.js';

export interface ClamdParts extends Omit<ProtocolParts, 'missing'> {
  readonly scans: ScanParts;
  readonly postgres: Postgres;
  readonly signatures: Signatures;
  readonly pool: ScanPool;
  readonly descriptors: DescriptorPlan;
  readonly places: Places;
}

/** Null: it isn't configured. */
export function createClamd(config: Config, log: EventLog, parts: ClamdParts): Listener | null {
  const { clamd } = config;
  if (clamd === null) return null;
  const { postgres, signatures, pool, scans, descriptors, places } = parts;
  const ofAccount = { ...parts, missing: 'clamdAccountMissing' } as const;
  const shared: ConnectionParts = {
    scans,
    streamLimitBytes: config.streamLimitBytes,
    streamTimeoutMs: config.uploadTimeoutMs,
    pool,
    folders: clamd.paths,
    files: createLimiter({ running: CLAMD_FILE_COMMANDS, waiting: CLAMD_FILE_COMMANDS_WAITING }),
    account: openProtocolAccount(postgres.requests('clamd'), clamd.account, ofAccount),
    version() {
      const state = signatures.state();
      return state.kind === 'ready' ? versionOf(state.engine) : 'ClamAV';
    },
    reload: () => void signatures.reload(),
    onSurprise: (requestId, error) => log.error({ requestId, err: error }, 'unforeseen error'),
  };
  return createListener({
    share: places.shareOf('clamd'),
    sockets: [...socketsAt(places, 'clamdSocket', 'unix'), ...socketsAt(places, 'clamdPort', 'tcp')],
    networks: clamd.networks,
    connections: descriptors.clamdConnections,
    onListening: () => log.info({ socket: clamd.socketPath, port: clamd.port }, "clamd's protocol"),
    open: (peer) => new Connection(shared, peer),
  });
}
