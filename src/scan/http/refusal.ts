// Scans that are refused before their admission, because too many of their account wait: nothing of them is looked at.
import type { AccessControl } from '../../admission/access.js';
import { Unavailable, type UnavailableReason } from '../../errors.js';
import type { BodySink, Exchange } from '../../http/exchange.js';
import { failureReply } from '../../http/failure.js';
import type { Reply } from '../../http/reply.js';
import { CoarseTimer, type TimerOwner } from '../../waiting/coarse-timer.js';
import type { ScanParts } from '../scan.js';

/** A body is waited for so long: most are there by then, and an answer behind a body costs half of one before it. */
const BODY_MS = 50;

export interface RefusalParts {
  readonly scans: Pick<ScanParts, 'pool'>;
  readonly access: Pick<AccessControl, 'expectedUser' | 'refuse'>;
  readonly onRefused: (reason: UnavailableReason) => void;
}

/**
 * True: it is refused, and answers by itself. It takes no unit, and has no row. So a refusal costs the serving thread half of a scan, and what is too much doesn't take the time from
 * what isn't. False: it may be admitted, or its content may have over 1 MB.
 */
export function isRefused(
  { scans, access, onRefused }: RefusalParts,
  exchange: Exchange,
  header: string | undefined,
): boolean {
  const { body } = exchange;
  if (!scans.pool.isCrowded || body.kind !== 'sized') return false;
  const user = access.expectedUser(header);
  const reason = user === null ? null : scans.pool.refusal(user, body.bytes);
  if (user === null || reason === null) return false;
  exchange.vouch();
  access.refuse(user);
  onRefused(reason);
  exchange.receive(new RefusedBody(exchange, failureReply(new Unavailable(reason))));
  return true;
}

class RefusedBody implements BodySink, TimerOwner {
  readonly #exchange: Exchange;
  readonly #reply: Reply;
  readonly #timer: CoarseTimer;

  constructor(exchange: Exchange, reply: Reply) {
    this.#exchange = exchange;
    this.#reply = reply;
    this.#timer = new CoarseTimer(this);
    this.#timer.start(BODY_MS);
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
