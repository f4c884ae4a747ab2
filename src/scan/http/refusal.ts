// Scans that are refused before their admission, because too many of their account wait: nothing of them is looked at.
import type { AccessControl } from '../../admission/access.js';
import { Unavailable, type UnavailableReason } from '../../errors.js';
import type { BodySink, Exchange } from '../../http/exchange.js';
import { readFraming } from '../../http/framing.js';
import { failureReply, headOf, type Reply } from '../../http/reply.js';
import type { Route } from '../../http/router.js';
import type { FindRefusal } from '../../http/server.js';
import type { PreparedAnswer } from '../../http/static-files.js';
import { REFUSAL_MS } from '../../limits.js';
import { CoarseTimer, type TimerOwner } from '../../waiting/coarse-timer.js';
import type { ScanParts } from '../scan.js';

export interface RefusalParts {
  readonly scans: Pick<ScanParts, 'pool'>;
  readonly access: Pick<AccessControl, 'expectedUser' | 'refuse'>;
  readonly onRefused: (reason: UnavailableReason) => void;
}

/** Why a scan is refused: it takes no unit then, has no row, and was counted. Null: it may be admitted, or its content may have over 1 MB. */
function refusalOf(parts: RefusalParts, header: string | undefined, bytes: number): UnavailableReason | null {
  const { scans, access, onRefused } = parts;
  const user = access.expectedUser(header);
  const reason = user === null ? null : scans.pool.refusal(user, bytes);
  if (user === null || reason === null) return null;
  access.refuse(user);
  onRefused(reason);
  return reason;
}

/** So much of a body comes with its head as a rule, and all of it before the answer. */
const SHORT_BYTES = 16 * 1024;
/** Headers with which a request is more than a scan that is waited for. */
const MORE = ['idempotency-key', 'prefer'];

/** Those with a short body, before anything is made of the request: what is too much must not take the time from what isn't. */
export function createRefusalFinder(
  parts: RefusalParts,
  { method, path }: Pick<Route, 'method' | 'path'>,
): FindRefusal {
  const { pool } = parts.scans;
  const route = `${method} ${path}`;
  const answers = new Map<UnavailableReason, PreparedAnswer>();
  return (head) => {
    if (!pool.queue.isCrowded || head.path !== path || head.method !== method || head.version !== '1.1') return null;
    const { headers, body, problem } = readFraming(head);
    if (problem !== null || body.kind !== 'sized' || body.bytes > SHORT_BYTES) return null;
    if (MORE.some((name) => headers.has(name)) || !isKept(headers.get('connection'))) return null;
    const reason = refusalOf(parts, headers.get('x-api-key'), body.bytes);
    if (reason === null) return null;
    const answer = answers.get(reason) ?? prepared(reason);
    answers.set(reason, answer);
    return { answer, headers, route };
  };
}

/** Otherwise it ends with the answer, and who still sends the body never reads it. */
function isKept(connection: string | undefined): boolean {
  return connection === undefined || connection.toLowerCase() === 'keep-alive';
}

function prepared(reason: UnavailableReason): PreparedAnswer {
  const reply = failureReply(new Unavailable(reason));
  const head = headOf(reply, '');
  // The id of the request comes first, and with each one.
  return { head: { ...head, headers: head.headers.slice(2) }, body: Buffer.from(reply.body) };
}

/** To be asked while many wait. True: it is refused, and answers by itself, behind its body as a rule: one before it costs twice as much. */
export function isRefused(parts: RefusalParts, exchange: Exchange, header: string | undefined): boolean {
  const { body } = exchange;
  if (body.kind !== 'sized') return false;
  const reason = refusalOf(parts, header, body.bytes);
  if (reason === null) return false;
  exchange.isVouchedFor = true;
  exchange.receive(new RefusedBody(exchange, failureReply(new Unavailable(reason))));
  return true;
}

class RefusedBody implements BodySink, TimerOwner {
  readonly #exchange: Exchange;
  readonly #reply: Reply;

  constructor(exchange: Exchange, reply: Reply) {
    this.#exchange = exchange;
    this.#reply = reply;
    new CoarseTimer(this).start(REFUSAL_MS);
  }

  chunk(): void {
    // Not looked at.
  }

  end(): void {
    // Nor waited for.
  }

  onDue(): void {
    this.#exchange.reply(this.#reply);
  }
}
