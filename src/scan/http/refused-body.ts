// The body of a scan that is refused at once: nothing of it is looked at. A short one is there in a moment, and the answer comes behind it.
import type { BodySink, Exchange } from '../../http/exchange.js';
import type { Reply } from '../../http/reply.js';
import { DRAIN_REST_BYTES } from '../../limits.js';
import { CoarseTimer, type TimerOwner } from '../../waiting/coarse-timer.js';

/** A short body is waited for so long: an answer behind it costs half of one before it, whose body is dropped afterwards. */
const SHORT_BODY_MS = 50;

/** Null: it will be answered. */
export function behindBody(exchange: Exchange, reply: Reply): Reply | null {
  const { body } = exchange;
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
