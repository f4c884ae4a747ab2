// What the operators' routes are made of.
import type { Plans } from '../config/plans.js';
import type { Exchange } from '../http/exchange.js';
import type { SqlOf } from '../store/postgres.js';
import type { Nodes } from './changes.js';
import type { ReadHealth } from './health.js';
import type { SignatureUpdate } from './signature-update.js';

export interface OperatorParts {
  readonly sqlOf: SqlOf;
  readonly plans: Plans;
  readonly nodes: Nodes;
  readonly now: () => number;
  /** Where a request comes from, behind proxies that are trusted. */
  readonly addressOf: (exchange: Exchange) => string;
  /** An account is gone: its scans may be removed now. */
  readonly onDeleted: () => void;
  readonly update: SignatureUpdate;
  /** A content that was refused since it crashed the engine is scanned again on this machine. False: it isn't refused. */
  readonly allow: (sha256: string) => boolean;
  readonly health: ReadHealth;
  /** Operators without a second factor are refused. */
  readonly needsTwoFactor: boolean;
}
