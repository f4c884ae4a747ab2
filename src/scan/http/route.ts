// POST /api/v1/scans, POST /web/scans and POST /web/url-scans: credentials in, a scan on its way out, which answers by itself. While too many scans of an account wait, its
// next ones are refused before their admission, and nothing of them is looked at.
import { type Access, type AccessControl, liveKey } from '../../admission/access.js';
import type { FindKey } from '../../admission/key-owners.js';
import { Failure, Unavailable, type UnavailableReason } from '../../errors.js';
import type { BodyRoom } from '../../http/bodies.js';
import type { CallerRoute, GuardedOperation } from '../../http/caller.js';
import type { BodySink, Exchange } from '../../http/exchange.js';
import { type Route, type RouteName, route } from '../../http/router.js';
import type { FindRefusal, PreparedAnswer } from '../../http/server.js';
import { failureReply, headOf, type Reply, readFraming } from '../../http/wire.js';
import { CONTENT_LIMIT_BYTES, REFUSAL_MS } from '../../limits.js';
import { CoarseTimer, type TimerOwner } from '../../waiting/coarse-timer.js';
import type { UploadMemory } from '../memory/memory.js';
import type { ScanParts } from '../scan.js';
import { type AcceptingParts, AcceptingScan, prefersAsync } from './accepting-scan.js';
import { type FormSettings, HttpScan } from './http-scan.js';
import { FirstScan, idempotencyKeyOf, Keeper, type KeptAnswers, RepeatedScan } from './idempotency.js';
import { exhaustedReply, scanOperation, signedInOperation, signedInUrlOperation } from './operation.js';

export interface ScanRouteParts {
  readonly scans: ScanParts;
  readonly access: AccessControl;
  readonly onRefused: (reason: UnavailableReason) => void;
  /** Where bodies wait whose scans have not begun. */
  readonly aside: AsideMemory;
  /** For requests with an Idempotency-Key; null: it isn't looked at. */
  readonly once: Once | null;
  /** For requests that prefer an answer before the verdict; null: they have it with the verdict. */
  readonly later: AcceptingParts | null;
  readonly uploadTimeoutMs: number;
  readonly onSurprise: FormSettings['onSurprise'];
}

export interface Once {
  readonly kept: KeptAnswers;
  /** The live key of that hash, or null. */
  readonly findKey: FindKey;
}

export function createScanRoutes(parts: ScanRouteParts) {
  const { scans, access, once, later, uploadTimeoutMs, onSurprise } = parts;
  const withUrls: FormSettings = {
    takes: 'all',
    timeoutMs: uploadTimeoutMs,
    limitBytes: CONTENT_LIMIT_BYTES,
    onSurprise,
  };

  async function scanOnce(
    exchange: Exchange,
    { kept, findKey }: Once,
    accepting: AcceptingParts | null,
  ): Promise<Reply | null> {
    const header = exchange.headers.get('x-api-key');
    const { userId } = await liveKey(header, findKey, 'scan');
    const settings = accepting === null ? withUrls : settingsOf(accepting);
    const claim = await claimed(scans, exchange, { kept, userId, settings });
    if (claim === null) return null;
    const keeper = new Keeper(kept, claim);
    const scan =
      accepting === null
        ? new FirstScan(scans, exchange, withUrls, keeper)
        : acceptingScan(exchange, accepting, keeper);
    return await admitLater(exchange, scan, access.withApiKey(header));
  }

  const settingsOf = ({ accepted: { limitBytes } }: AcceptingParts): FormSettings => ({ ...withUrls, limitBytes });
  const acceptingScan = (exchange: Exchange, accepting: AcceptingParts, keeper: Keeper | null): AcceptingScan =>
    new AcceptingScan(scans, exchange, settingsOf(accepting), { ...accepting, keeper });

  const withKey = route('POST /api/v1/scans', scanOperation, (exchange) => {
    // Null: the client waits for its verdict.
    const accepting = exchange.headers.has('prefer') && prefersAsync(exchange) ? later : null;
    const isOnce = exchange.headers.has('idempotency-key');
    if (accepting !== null || isOnce) keepForAccount(parts, exchange);
    if (once !== null && isOnce) return scanOnce(exchange, once, accepting);
    if (accepting !== null) {
      const asked = access.withApiKey(exchange.headers.get('x-api-key'));
      return admitLater(exchange, acceptingScan(exchange, accepting, null), asked);
    }
    // The usual way: it is begun at once.
    const header = exchange.headers.get('x-api-key');
    if (scans.pool.queue.isCrowded && isRefused(parts, exchange, header)) return null;
    const scan = new HttpScan(scans, exchange, withUrls);
    const asked = access.withApiKey(header, scan);
    return asked instanceof Promise ? admitLater(exchange, scan, asked) : admit(exchange, scan, asked);
  });
  return {
    /** The public route. */
    withKey,
    /** The dashboard's: one for uploads, one for URLs, the same quota. */
    signedIn: [
      routeAsUser(parts, 'POST /web/scans', signedInOperation, { ...withUrls, takes: 'files' }),
      routeAsUser(parts, 'POST /web/url-scans', signedInUrlOperation, { ...withUrls, takes: 'urls' }),
    ],
    /** Scans of the public route that are refused before anything is made of their request. */
    findRefusal: createRefusalFinder(parts, withKey),
  };
}

/** Of a request whose scan begins later than its body comes: what arrives until then is of its account, where that is known. */
function keepForAccount({ access, aside }: ScanRouteParts, exchange: Exchange): void {
  const user = access.knownUser(exchange.headers.get('x-api-key'));
  if (user !== null) exchange.keepIn(new AccountRoom(aside, user));
}

interface Claiming {
  readonly kept: KeptAnswers;
  readonly userId: string;
  readonly settings: FormSettings;
}

/** Of the Idempotency-Key that the request has. Null: it was used before, and what is sent now is compared and answered. */
async function claimed(scans: ScanParts, exchange: Exchange, { kept, userId, settings }: Claiming) {
  const found = await kept.claim(userId, idempotencyKeyOf(exchange), () => exchange.isGone());
  exchange.isVouchedFor = true;
  if (found.kind === 'first') return found.claim;
  new RepeatedScan(scans, exchange, settings, found).begin(userId);
  return null;
}

function routeAsUser(
  { scans, access, once, aside }: ScanRouteParts,
  name: RouteName,
  operation: GuardedOperation,
  settings: FormSettings,
): CallerRoute {
  const isOnce = ({ headers }: Exchange): boolean => once !== null && headers.has('idempotency-key');
  return {
    name,
    operation,
    begin(userId, exchange) {
      if (isOnce(exchange)) {
        exchange.keepIn(new AccountRoom(aside, userId));
        return null;
      }
      const scan = new HttpScan(scans, exchange, settings);
      scan.expect(userId);
      return scan;
    },
    handle: async (caller, exchange, _parameters, begun) => {
      if (once !== null && isOnce(exchange)) {
        const { kept } = once;
        const claim = await claimed(scans, exchange, { kept, userId: caller.userId, settings });
        if (claim === null) return null;
        const scan = new FirstScan(scans, exchange, settings, new Keeper(kept, claim));
        return await admitLater(exchange, scan, access.asUser(caller));
      }
      const scan = begun instanceof HttpScan ? begun : new HttpScan(scans, exchange, settings);
      return admit(exchange, scan, await access.asUser(caller));
    },
  };
}

/** The upload of a key whose user is known and likely to be admitted may be received and scanned already. */
async function admitLater(exchange: Exchange, scan: HttpScan, asked: Access | Promise<Access>): Promise<Reply | null> {
  try {
    return admit(exchange, scan, await asked);
  } catch (error) {
    scan.drop();
    throw error;
  }
}

/** Null: the scan answers. */
function admit(exchange: Exchange, scan: HttpScan, asked: Access): Reply | null {
  switch (asked.outcome) {
    case 'keyMissing':
    case 'keyInvalid':
    case 'accountSuspended':
      throw new Failure(asked.outcome);
    case 'scopeMissing':
      throw new Failure(asked.outcome, 'scan');
    case 'exhausted':
      scan.drop();
      return exhaustedReply(asked);
    case 'admitted':
      // From here on it isn't a stranger's.
      exchange.isVouchedFor = true;
      scan.onAdmission(asked);
      return null;
  }
}

type AsideMemory = Pick<UploadMemory, 'setAside' | 'takeUp'>;

/** Where a body counts whose account is known and whose scan has not begun: in the memory of uploads, as what waits there does, and not in the budget of bodies of strangers. */
class AccountRoom implements BodyRoom {
  readonly #memory: AsideMemory;
  readonly #account: string;

  constructor(memory: AsideMemory, account: string) {
    this.#memory = memory;
    this.#account = account;
  }

  take(bytes: number): boolean {
    return this.#memory.setAside(this.#account, bytes);
  }

  giveBack(bytes: number): void {
    this.#memory.takeUp(this.#account, bytes);
  }
}

/** Why a scan is refused: it takes no unit then, has no row, and was counted. Null: it may be admitted, or its content may have over 1 MB. */
function refusalOf(parts: ScanRouteParts, header: string | undefined, bytes: number): UnavailableReason | null {
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
function createRefusalFinder(parts: ScanRouteParts, { name: label }: Route): FindRefusal {
  const { pool } = parts.scans;
  const [method, path] = label.split(' ');
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
    return { answer, headers, route: label };
  };
}

/** Otherwise it ends with the answer, and who still sends the body never reads it. */
function isKept(connection: string | undefined): boolean {
  return connection === undefined || connection.toLowerCase() === 'keep-alive';
}

function prepared(reason: UnavailableReason): PreparedAnswer {
  const reply = failureReply(new Unavailable(reason));
  const head = headOf(reply, '');
  // The id of the request comes first.
  return { head: { ...head, headers: head.headers.slice(2) }, body: Buffer.from(reply.body) };
}

/** To be asked while many wait. True: it is refused, and answers by itself, behind its body as a rule: one before it costs twice as much. */
function isRefused(parts: ScanRouteParts, exchange: Exchange, header: string | undefined): boolean {
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

  take(): void {
    // Not looked at, nor waited for.
  }

  onDue(): void {
    this.#exchange.reply(this.#reply);
  }
}
