// A scan that is answered once for its Idempotency-Key. Answers are kept in Postgres for a day: one request of an account with a key is under way at a time, on all nodes, and those that come meanwhile wait for
// it. The first request scans and its answer is kept; the same request again is compared by its bytes, and answered the same.
import { createHash, type Hash, hash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { v4 as uuidv4 } from 'uuid';
import { z } from 'zod';
import { Failure, Unavailable } from '../../errors.js';
import type { Exchange } from '../../http/exchange.js';
import { failureReply, headOf, type Reply } from '../../http/wire.js';
import type { Queries, SqlOf } from '../../store/postgres.js';
import { Shares } from '../../waiting/turns.js';
import { assertWithin } from '../content.js';
import type { ScanParts } from '../scan.js';
import { asFailure } from './body-reader.js';
import { type FormSettings, HttpScan } from './http-scan.js';

/** Visible ASCII. */
const KEY = /^[!-~]{1,255}$/;
const KEPT_HEADER = /^(?:X-Scan-|Location$|Preference-Applied$)/;

/** Of a request that has one. Throws Failure `badRequest`. */
export function idempotencyKeyOf({ headers }: Exchange): string {
  const key = headers.get('idempotency-key') ?? '';
  if (!KEY.test(key)) throw new Failure('badRequest', 'Idempotency-Key: must be 1 to 255 visible ASCII characters');
  return key;
}

interface Sent {
  /** Null: a URL. */
  readonly sha256: string | null;
  /** As it was sent; null: a file. */
  readonly url: string | null;
  readonly filename: string;
  readonly metadata: string | null;
  /** What was said of the policy; empty: nothing. */
  readonly policySaid: string;
}

/** Over all that the answer and the row depend on. */
function fingerprintOf({ sha256, url, filename, metadata, policySaid }: Sent): string {
  // The name of a URL's content comes from the URL.
  const parts = url === null ? ['file', sha256, filename, metadata] : ['url', url, metadata];
  if (policySaid !== '') parts.push(policySaid);
  return hash('sha256', JSON.stringify(parts));
}

/** The claim of the first one, and what becomes of it. */
export class Keeper {
  readonly #kept: KeptAnswers;
  readonly #claim: Claim;

  constructor(kept: KeptAnswers, claim: Claim) {
    this.#kept = kept;
    this.#claim = claim;
  }

  /** Keeps the answer for the same request again, unless that should be tried anew. */
  async keep(reply: Reply, sent: Sent): Promise<void> {
    const { status, body } = reply;
    const list = headOf(reply, '').headers;
    const headers: Record<string, string> = {};
    for (let at = 0; at < list.length; at += 2) {
      const name = list[at] ?? '';
      if (KEPT_HEADER.test(name)) headers[name] = list[at + 1] ?? '';
    }
    const isAboutContent = sent.sha256 !== null || sent.url !== null;
    if (status >= 500 || !isAboutContent || headers['X-Scan-Id'] === undefined || typeof body !== 'string') {
      await this.giveUp();
      return;
    }
    await this.#kept.complete(this.#claim, fingerprintOf(sent), { status, headers, body });
  }

  async giveUp(): Promise<void> {
    await this.#kept.giveUp(this.#claim);
  }

  /** Called when the same request has come again to this process. */
  onAgain(listener: () => void): void {
    this.#kept.onAgain(this.#claim, listener);
  }
}

/** A scan whose answer is kept, where it has an Idempotency-Key. */
export class KeptScan extends HttpScan {
  /** Null: it has none. */
  readonly #keeper: Keeper | null;
  protected sentUrl: string | null = null;

  constructor(parts: ScanParts, exchange: Exchange, settings: FormSettings, keeper: Keeper | null) {
    super(parts, exchange, settings);
    this.#keeper = keeper;
  }

  /** Where it can't be kept the client has its answer; the same request again scans again. */
  protected async keep(reply: Reply): Promise<void> {
    const { sha256, sentUrl: url, filename, metadata, policySaid } = this;
    const kept = this.#keeper?.keep(reply, { sha256, url, filename, metadata, policySaid });
    await kept?.catch((error: unknown) => this.tellOf(error));
  }

  override drop(): void {
    super.drop();
    this.onLeft();
  }

  /** The client has left before all of it was here. */
  protected override onLeft(): void {
    this.#keeper?.giveUp().catch((error: unknown) => this.tellOf(error));
  }

  protected override answer(): void {
    const reply = this.reply();
    void this.keep(reply).then(() => this.send(reply));
  }
}

/** The first one. What arrived whole is scanned also when its client has left: the client comes back with the same key. */
export class FirstScan extends KeptScan {
  #movedMs = performance.now();

  constructor(parts: ScanParts, exchange: Exchange, settings: FormSettings, keeper: Keeper) {
    super(parts, exchange, settings, keeper);
    keeper.onAgain(() => this.#giveWay());
  }

  override onFileBytes(bytes: Uint8Array): void {
    this.#movedMs = performance.now();
    super.onFileBytes(bytes);
  }

  /** A line that broke in silence: its client has sent it again, and would wait for the end of the time that an upload has. */
  #giveWay(): void {
    const isSilent = this.stage === 'receiving' && !this.isWhole && performance.now() - this.#movedMs > SILENT_MS;
    if (isSilent) this.fail(new Failure('uploadTooSlow', `${SILENT_MS} ms without a byte, and was sent again`));
  }

  protected override fetchUrl(url: string): void {
    this.sentUrl = url;
    super.fetchUrl(url);
  }

  override onGone(reason: Error): void {
    if (!this.isWhole) super.onGone(reason);
  }

  protected override signal(): AbortSignal {
    return new AbortController().signal;
  }
}

/** The same key again, with an answer that is there: what is sent is compared, not kept, and takes no unit. */
export class RepeatedScan extends HttpScan {
  readonly #fingerprint: string;
  readonly #answer: KeptAnswer;
  readonly #hash: Hash;
  #bytes = 0;

  constructor(
    parts: ScanParts,
    exchange: Exchange,
    settings: FormSettings,
    { fingerprint, answer }: { readonly fingerprint: string; readonly answer: KeptAnswer },
  ) {
    super(parts, exchange, settings);
    this.#fingerprint = fingerprint;
    this.#answer = answer;
    this.#hash = createHash('sha256');
  }

  override onFileBytes(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    assertWithin(this.limitBytes, this.#bytes);
    this.#hash.update(bytes);
  }

  protected override endOfContent(): void {
    if (this.#bytes === 0) throw new Failure('fileEmpty');
    this.#compare(this.#hash.digest('hex'), null);
  }

  protected override fetchUrl(url: string): void {
    this.#compare(null, url);
  }

  #compare(sha256: string | null, url: string | null): void {
    this.endReceiving();
    const { filename, metadata, policySaid } = this;
    if (fingerprintOf({ sha256, url, filename, metadata, policySaid }) !== this.#fingerprint) {
      throw new Failure('conflict', 'This Idempotency-Key was used for other content');
    }
    this.isDecided = true;
    const { status, headers, body } = this.#answer;
    this.send({ status, headers: { ...headers, 'Idempotent-Replayed': 'true' }, body });
  }

  protected override fail(cause: unknown): void {
    if (this.isDecided) return;
    const problem = asFailure(cause);
    this.isDecided = true;
    this.endReceiving();
    if (this.isGone) return;
    if (!(problem instanceof Failure)) this.tellOf(problem);
    this.send(failureReply(problem instanceof Failure ? problem : new Failure('internal', this.requestId)));
  }
}

interface KeptAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Claim {
  readonly userId: string;
  readonly claimId: string;
  readonly keyHash: Buffer;
}

type Claimed =
  /** This request is the one. It must be completed, or given up. */
  | { readonly kind: 'first'; readonly claim: Claim }
  | { readonly kind: 'answered'; readonly fingerprint: string; readonly answer: KeptAnswer };

export type KeptAnswers = ReturnType<typeof createKeptAnswers>;

interface KeptAnswersOptions {
  readonly sqlOf: SqlOf;
  readonly onProblem: (error: unknown) => void;
}

/** An upload that says nothing for so long gives way to the same one that has come again. */
const SILENT_MS = 2_000;
const KEPT = '24 hours';
/** A process that dies keeps others waiting so long at most. */
const LEASE = '15 seconds';
const RENEW_MS = 4_000;
const SWEEP_MS = 600_000;
/** A request waits so long for the one before it. */
const WAIT_MS = 60_000;
const FIRST_PAUSE_MS = 25;
const LAST_PAUSE_MS = 500;
/** Of one account, in one process: each asks Postgres again and again. */
const WAITS_PER_USER = 16;
/** The party of its own questions, among the accounts that share the store's connections. */
const SERVICE = 'service';

const Headers = z.record(z.string(), z.string());

export function createKeptAnswers({ sqlOf, onProblem }: KeptAnswersOptions) {
  const underWay = createUnderWay();
  const waiting = new Shares(WAITS_PER_USER);

  async function renew(): Promise<void> {
    const ids = underWay.ids();
    if (ids.length === 0) return;
    await sqlOf(SERVICE)`
      UPDATE kept_answers SET leased_until = now() + ${LEASE}::interval
      WHERE status IS NULL AND claim = ANY(${ids}::uuid[])`;
  }
  const sweep = () => sqlOf(SERVICE)`DELETE FROM kept_answers WHERE creation_date < now() - ${KEPT}::interval`;
  const renewing = setInterval(() => renew().catch(onProblem), RENEW_MS).unref();
  const sweeping = setInterval(() => sweep().then(undefined, onProblem), SWEEP_MS).unref();

  async function ask(claim: Claim): Promise<Claimed | null> {
    const sql = sqlOf(claim.userId);
    if (await take(sql, claim)) {
      underWay.begin(claim);
      return { kind: 'first', claim };
    }
    return await look(sql, claim);
  }

  return {
    /** Waits for a request that is under way, as long as `isGone` says no. Throws Failure `unavailable`. */
    async claim(userId: string, key: string, isGone: () => boolean): Promise<Claimed> {
      const claim = { userId, claimId: uuidv4(), keyHash: hash('sha256', key, 'buffer') };
      const untilMs = performance.now() + WAIT_MS;
      let found = await ask(claim);
      if (found !== null) return found;
      if (!waiting.take(userId)) throw new Unavailable('sameKeyBusy');
      try {
        for (let pauseMs = FIRST_PAUSE_MS; found === null; pauseMs = Math.min(LAST_PAUSE_MS, 2 * pauseMs)) {
          if (isGone() || performance.now() > untilMs) throw new Unavailable('sameKeyBusy');
          await delay(pauseMs);
          underWay.tellAgain(claim);
          found = await ask(claim);
        }
        return found;
      } finally {
        waiting.giveBack(userId);
      }
    },
    /** `listener`: called as long as somebody waits for it. */
    onAgain: underWay.listen,
    /** Keeps the answer. `fingerprint`: 64 hex characters over what was sent. */
    async complete(claim: Claim, fingerprint: string, { status, headers, body }: KeptAnswer) {
      const { userId, claimId, keyHash } = claim;
      underWay.end(claim);
      await sqlOf(userId)`
        UPDATE kept_answers SET creation_date = now(), fingerprint = decode(${fingerprint}, 'hex'), status = ${status},
          headers = ${JSON.stringify(headers)}::text::jsonb, body = ${body}
        WHERE user_id = ${userId} AND key_hash = ${keyHash} AND claim = ${claimId}`;
    },
    /** There is no answer to keep: the next request with the key is the first. */
    async giveUp(claim: Claim): Promise<void> {
      const { userId, claimId, keyHash } = claim;
      underWay.end(claim);
      await sqlOf(userId)`
        DELETE FROM kept_answers
        WHERE user_id = ${userId} AND key_hash = ${keyHash} AND claim = ${claimId} AND status IS NULL`;
    },
    stop(): void {
      clearInterval(renewing);
      clearInterval(sweeping);
    },
  };
}

/** The claims of this process, and who is to hear when the same request has come again. */
function createUnderWay() {
  const claims = new Set<string>();
  /** By account and key. */
  const listeners = new Map<string, () => void>();
  return {
    ids: (): string[] => [...claims],
    begin: (claim: Claim): void => void claims.add(claim.claimId),
    end(claim: Claim): void {
      if (claims.delete(claim.claimId)) listeners.delete(placeOf(claim));
    },
    listen(claim: Claim, listener: () => void): void {
      if (claims.has(claim.claimId)) listeners.set(placeOf(claim), listener);
    },
    tellAgain: (claim: Claim): void => listeners.get(placeOf(claim))?.(),
  };
}

function placeOf({ userId, keyHash }: Claim): string {
  return `${userId} ${keyHash.toString('hex')}`;
}

/** Whether nobody has the key: nobody ever had, the answer is too old, or who had it has died. */
async function take(sql: Queries, { userId, claimId, keyHash }: Claim): Promise<boolean> {
  const taken = await sql`
    INSERT INTO kept_answers AS a (user_id, key_hash, claim, leased_until)
    VALUES (${userId}, ${keyHash}, ${claimId}, now() + ${LEASE}::interval)
    ON CONFLICT (user_id, key_hash) DO UPDATE SET claim = excluded.claim, leased_until = excluded.leased_until,
      creation_date = now(), fingerprint = NULL, status = NULL, headers = NULL, body = NULL
    WHERE CASE WHEN a.status IS NULL THEN a.leased_until < now() ELSE a.creation_date < now() - ${KEPT}::interval END`;
  return taken.count > 0;
}

/** Null: it is under way. */
async function look(sql: Queries, { userId, keyHash }: Claim): Promise<Claimed | null> {
  const [row] = await sql<{ fingerprint: string; status: number | null; headers: unknown; body: string }[]>`
    SELECT encode(fingerprint, 'hex') AS fingerprint, status, headers, body FROM kept_answers
    WHERE user_id = ${userId} AND key_hash = ${keyHash}`;
  // Gone at this moment: the next look takes it.
  if (row === undefined || row.status === null) return null;
  const { fingerprint, status, body } = row;
  return { kind: 'answered', fingerprint, answer: { status, headers: Headers.parse(row.headers), body } };
}
