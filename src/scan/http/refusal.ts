// Scans that are refused before their admission, because too many of their account wait: nothing of them is looked at.
import type { AccessControl } from '../../admission/access.js';
import { Unavailable, type UnavailableReason } from '../../errors.js';
import type { BodySink, Exchange } from '../../http/exchange.js';
import { failureReply } from '../../http/failure.js';
import type { Reply } from '../../http/reply.js';
import { DRAIN_REST_BYTES } from '../../limits.js';
import { CoarseTimer, type TimerOwner } from '../../waiting/coarse-timer.js';
import type { ScanParts } from '../scan.js';

/** A short body is waited for so long: an answer behind it costs half of one before it, whose body is dropped afterwards. */
const SHORT_BODY_MS = 50;

export interface RefusalParts {
  readonly scans: Pick<ScanParts, 'pool'>;
  readonly access: Pick<AccessControl, 'expectedUser' | 'refuse'>;
  readonly onRefused: (reason: UnavailableReason) => void;
}

/**
 * Why it is refused; it takes no unit then, and has no row. So a refusal costs a third of a scan, and what is too much doesn't take the time from what isn't. Null: it may be
 * admitted, or its content may have over 1 MB.
 */
export function refusalOf(
  { scans, access, onRefused }: RefusalParts,
  exchange: Exchange,
  header: string | undefined,
): UnavailableReason | null {
  const { body } = exchange;
  const user = access.expectedUser(header);
  if (user === null || body.kind !== 'sized') return null;
  const reason = scans.pool.refusal(user, body.bytes);
  if (reason === null) return null;
  exchange.vouch();
  access.refuse(user);
  onRefused(reason);
  return reason;
}

/** Null: it answers by itself. */
export function refuse(exchange: Exchange, reason: UnavailableReason): Reply | null {
  const { body } = exchange;
  const reply = failureReply(new Unavailable(reason));
  if (body.kind !== 'sized' || body.bytes > DRAIN_REST_BYTES) return reply;
  exchange.receive(new RefusedBody(exchange, reply));
  return null;
}

class RefusedBody implements BodySink, TimerOwner {
  readonly #exchange: Exchange;
  readonly #reply: Reply;
  readonly #timer: CoarseTimer;

  constructor(exchange: Exchange, reply: Reply) {
    this.#exchange = exchange;
    this.#reply = reply;
    this.#timer = new CoarseTimer(this);
    this.#timer.start(SHORT_BODY_MS);
    exchange.onGone(() => this.#timer.stop());
  }

  chunk(): void {
    // Not looked at.
  }

  end(): void {
    this.#timer.stop();
    this.#exchange.reply(this.#reply);
  }

  onDue(): void {
    this.#exchange.reply(this.#reply);
  }
}
