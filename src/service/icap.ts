// ICAP put together: the account that its scans are of, what it tells of the engine, and its listener.
import { findUserByEmail } from '../account/users.js';
import type { AccessControl } from '../admission/access.js';
import type { Config } from '../config/config.js';
import type { Signatures } from '../engine/signatures.js';
import { Failure, Unavailable } from '../errors.js';
import { BLOCK_PAGE, tagOf } from '../icap/answers.js';
import { createIcapListener, type IcapListener } from '../icap/listener.js';
import type { EventLog } from '../log.js';
import type { ScanParts } from '../scan/scan.js';
import type { Postgres } from '../store/postgres.js';

export interface IcapParts {
  readonly scans: ScanParts;
  readonly access: AccessControl;
  readonly postgres: Postgres;
  readonly signatures: Signatures;
  readonly version: string;
}

/** Null: it isn't configured. */
export function createIcap(config: Config, log: EventLog, parts: IcapParts): IcapListener | null {
  const { icap } = config;
  if (icap === null) return null;
  const { access, postgres, signatures, scans, version } = parts;
  const sql = postgres.requests('icap');
  return createIcapListener(
    {
      ...icap,
      onListening: (place) => log.info({ place }, 'ICAP'),
      onTaken: (place, reason) => log.warn({ place, reason }, "ICAP can't be spoken there yet"),
    },
    {
      scans,
      version,
      limitBytes: config.streamLimitBytes,
      bodyTimeoutMs: config.uploadTimeoutMs,
      incomplete: icap.incomplete,
      blockPage: BLOCK_PAGE,
      tag: tagKeeper(signatures),
      async admit() {
        const user = await findUserByEmail(sql, icap.account);
        // It may be made later, and removed at any time.
        if (user === null) throw new Unavailable('icapAccountMissing');
        if (user.suspended_at !== null) throw new Failure('accountSuspended');
        return await access.asUser({ userId: user.id, plan: user.plan, ownLimit: user.own_limit });
      },
      onSurprise: (requestId, error) => log.error({ requestId, err: error }, 'unforeseen error'),
    },
  );
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
