// A look at the outbox of all nodes, for metrics and readiness: what waits, and whether it waits because of us.
import type { Sql } from '../store/postgres.js';
import { within } from '../waiting/within.js';

/** What waits in the outbox, of all nodes. */
export interface OutboxState {
  /** Deliveries that wait; of very many no more than are counted. */
  readonly waiting: number;
  /** How long the oldest of those is due whose receivers take what they are sent. */
  readonly overdueMs: number;
}

/** More are not counted: the question has to be answered soon. */
const COUNTED_ROWS = 100_000;

async function outboxState(sql: Sql): Promise<OutboxState> {
  const [state] = await sql<OutboxState[]>`
    SELECT count(*)::float8 AS waiting,
      coalesce(1000 * extract(epoch FROM now() - min(d.next_at) FILTER (WHERE d.next_at < now() AND h.failing_since IS NULL)), 0)::float8
        AS "overdueMs"
    FROM (SELECT webhook_id, next_at FROM webhook_deliveries WHERE state = 'waiting' LIMIT ${COUNTED_ROWS}) d
    JOIN webhooks h ON h.id = d.webhook_id`;
  return state ?? { waiting: 0, overdueMs: 0 };
}

/** Anybody may ask for it: the database is asked so often at most. */
const REMEMBERED_MS = 5_000;
/** So long its answer is waited for. */
const ANSWER_MS = 1_000;

/** Null: the database doesn't answer. */
export type OutboxLook = () => Promise<OutboxState | null>;

export function createOutboxLook(sql: Sql): OutboxLook {
  let asked: Promise<OutboxState | null> | null = null;
  let askedMs = 0;
  return () => {
    if (asked !== null && performance.now() - askedMs < REMEMBERED_MS) return asked;
    askedMs = performance.now();
    asked = within(outboxState(sql), ANSWER_MS).catch(() => null);
    return asked;
  };
}
