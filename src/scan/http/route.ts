// POST /api/v1/scans, POST /web/scans and POST /web/url-scans: credentials in, a scan on its way out, which answers by itself.
import { type Access, type AccessControl, liveKey } from '../../admission/access.js';
import type { Lookups } from '../../admission/lookups.js';
import { Failure } from '../../errors.js';
import type { BodyRoom } from '../../http/bodies.js';
import type { CallerRoute } from '../../http/caller.js';
import type { Exchange } from '../../http/exchange.js';
import type { Operation } from '../../http/openapi.js';
import type { Reply } from '../../http/reply.js';
import type { Route } from '../../http/router.js';
import type { FindRefusal } from '../../http/server.js';
import { CONTENT_LIMIT_BYTES } from '../../limits.js';
import type { UploadMemory } from '../memory/memory.js';
import type { ScanParts } from '../scan.js';
import { type AcceptingParts, AcceptingScan, prefersAsync } from './accepting-scan.js';
import { exhaustedReply } from './answers.js';
import { type FormSettings, HttpScan } from './http-scan.js';
import type { KeptAnswers } from './kept-answers.js';
import { FirstScan, idempotencyKeyOf, Keeper, RepeatedScan } from './once.js';
import { scanOperation, signedInOperation, signedInUrlOperation } from './operation.js';
import { createRefusalFinder, isRefused, type RefusalParts } from './refusal.js';

export interface ScanRouteParts extends RefusalParts {
  readonly scans: ScanParts;
  readonly access: AccessControl;
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
  readonly findKey: Lookups['find'];
}

export interface ScanRoutes {
  /** The public route. */
  readonly withKey: Route;
  /** The dashboard's: one for uploads, one for URLs, the same quota. */
  readonly signedIn: readonly CallerRoute[];
  /** Scans of the public route that are refused before anything is made of their request. */
  readonly findRefusal: FindRefusal;
}

export function createScanRoutes(parts: ScanRouteParts): ScanRoutes {
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
    const claimed = await kept.claim(userId, idempotencyKeyOf(exchange), () => exchange.isGone());
    exchange.isVouchedFor = true;
    if (claimed.kind === 'answered') {
      const settings = accepting === null ? withUrls : settingsOf(accepting);
      new RepeatedScan(scans, exchange, settings, claimed).begin(userId);
      return null;
    }
    const keeper = new Keeper(kept, claimed.claim);
    const scan =
      accepting === null
        ? new FirstScan(scans, exchange, withUrls, keeper)
        : acceptingScan(exchange, accepting, keeper);
    return await admitLater(exchange, scan, access.withApiKey(header));
  }

  const settingsOf = ({ accepted: { limitBytes } }: AcceptingParts): FormSettings => ({ ...withUrls, limitBytes });
  const acceptingScan = (exchange: Exchange, accepting: AcceptingParts, keeper: Keeper | null): AcceptingScan =>
    new AcceptingScan(scans, exchange, settingsOf(accepting), { ...accepting, keeper });

  const withKey: Route = {
    method: 'POST',
    path: '/api/v1/scans',
    operation: scanOperation,
    handle(exchange) {
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
    },
  };
  return {
    withKey,
    signedIn: [
      routeAsUser(parts, '/web/scans', signedInOperation, { ...withUrls, takes: 'files' }),
      routeAsUser(parts, '/web/url-scans', signedInUrlOperation, { ...withUrls, takes: 'urls' }),
    ],
    findRefusal: createRefusalFinder(parts, withKey),
  };
}

/** Of a request whose scan begins later than its body comes: what arrives until then is of its account, where that is known. */
function keepForAccount({ access, aside }: ScanRouteParts, exchange: Exchange): void {
  const user = access.knownUser(exchange.headers.get('x-api-key'));
  if (user !== null) exchange.keepIn(new AccountRoom(aside, user));
}

function routeAsUser(
  { scans, access }: ScanRouteParts,
  path: string,
  operation: Operation,
  settings: FormSettings,
): CallerRoute {
  return {
    method: 'POST',
    path,
    operation,
    begin(userId, exchange) {
      const scan = new HttpScan(scans, exchange, settings);
      scan.expect(userId);
      return scan;
    },
    handle: async (caller, exchange, _parameters, begun) => {
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

export type AsideMemory = Pick<UploadMemory, 'setAside' | 'takeUp'>;

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
