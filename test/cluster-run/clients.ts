// The clients of the run: two accounts that scan, one that makes keys and revokes them, one that reads the history. What they were given is counted here.
import type { Agent, IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { ask, bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { Traffic } from '../soak/traffic.js';

const Balance = z.object({ hourlyLimit: z.number(), remaining: z.number(), resetTime: z.number() });
const Key = z.object({ uuid: z.string(), value: z.string() });
const Page = z.object({ content: z.array(z.object({ id: z.string() }).loose()) });

const RETRIES_MAX = 20;
const PATIENCE_MS = 20_000;

export interface Place {
  /** Of the proxy. */
  readonly port: number;
  readonly originPort: number;
  readonly agent: Agent;
}

/** One account with its key, and the scans that it was given by the end of the hour that they belong to. */
export class Account {
  readonly id: string;
  readonly key: string;
  readonly traffic: Traffic;
  readonly #url: string;
  readonly #given: Map<number, number>;

  constructor(place: Place, { userId, key }: { readonly userId: string; readonly key: string }, random: () => number) {
    this.id = userId;
    this.key = key;
    this.#url = `http://127.0.0.1:${place.port}`;
    this.#given = new Map();
    const onAnswer = ({ statusCode = 0, headers }: IncomingMessage): void => {
      if (headers['x-scan-id'] !== undefined) this.count(statusCode, headers['x-ratelimit-reset']);
    };
    this.traffic = new Traffic(
      { ...place, key, clamdSocket: null, icapPort: null, retriesMax: RETRIES_MAX, onAnswer },
      random,
    );
  }

  /** A scan that the service fails gives its unit back. */
  count(status: number, reset: unknown): void {
    const hour = Number(reset);
    if (status < 500) this.#given.set(hour, (this.#given.get(hour) ?? 0) + 1);
  }

  get given(): ReadonlyMap<number, number> {
    return this.#given;
  }

  /** What the service says that it has counted, against what was given before it was asked. */
  async balance(): Promise<{ readonly limit: number; readonly used: number; readonly given: number }> {
    return await until(async () => {
      const given = new Map(this.#given);
      const answer = await ask(`${this.#url}/api/v1/account`, {
        headers: { 'X-API-KEY': this.key },
        signal: AbortSignal.timeout(PATIENCE_MS),
      }).catch(() => null);
      if (answer?.status !== 200) return null;
      const { hourlyLimit, remaining, resetTime } = Balance.parse(answer.body);
      return { limit: hourlyLimit, used: hourlyLimit - remaining, given: given.get(resetTime) ?? 0 };
    });
  }
}

const SESSION_MS = 5 * 60_000;

/** The one who has signed in: an operator, and the owner of the first account. */
export class Operator {
  readonly #url: string;
  #token: string;
  #signedInMs: number;

  constructor(port: number) {
    this.#url = `http://127.0.0.1:${port}`;
    this.#token = '';
    this.#signedInMs = Number.NEGATIVE_INFINITY;
  }

  /** Asks until the answer is one of these, however long the service is away; null: it is not to be asked any more. */
  async ask(path: string, init: RequestInit, expected: readonly number[], isOver = () => false): Promise<unknown> {
    while (!isOver()) {
      const headers = await this.#headers();
      const answer =
        headers === null
          ? null
          : await ask(`${this.#url}${path}`, { ...init, headers, signal: AbortSignal.timeout(PATIENCE_MS) }).catch(
              () => null,
            );
      if (answer !== null && expected.includes(answer.status)) return answer.body;
      await delay(200);
    }
    return null;
  }

  async #headers(): Promise<Record<string, string> | null> {
    if (performance.now() - this.#signedInMs > SESSION_MS) {
      const session = await signIn(this.#url).catch(() => null);
      if (session === null) return null;
      this.#token = session.accessToken;
      this.#signedInMs = performance.now();
    }
    return { ...bearer(this.#token), 'Content-Type': 'application/json' };
  }
}

/** After a revocation was answered: asked at once of every node, and of these later again. */
const REMEMBERED = 30;
const PAUSE_MS = 250;

/** Makes keys, uses each, revokes it, and uses it on. */
export class Revocations {
  revoked = 0;
  askedAfter = 0;
  acceptedAfter = 0;
  readonly problems: string[];
  readonly #account: Account;
  readonly #operator: Operator;
  readonly #ports: () => readonly number[];
  readonly #random: () => number;
  readonly #gone: string[];

  constructor(account: Account, operator: Operator, ports: () => readonly number[], random: () => number) {
    this.problems = [];
    this.#account = account;
    this.#operator = operator;
    this.#ports = ports;
    this.#random = random;
    this.#gone = [];
  }

  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const body = JSON.stringify({ name: 'of the run' });
      const made = await this.#operator.ask('/web/keys', { method: 'POST', body }, [201], isOver);
      if (made === null) return;
      const { uuid, value } = Key.parse(made);
      await Promise.all(this.#ports().map((port) => this.#use(port, value)));
      // Twice where the first answer was lost: it is gone then.
      await this.#operator.ask(`/web/keys/${uuid}`, { method: 'DELETE' }, [204, 404], isOver);
      if (isOver()) return;
      this.revoked += 1;
      this.#gone.push(value);
      if (this.#gone.length > REMEMBERED) this.#gone.shift();
      const older = this.#gone[Math.floor(this.#random() * this.#gone.length)] ?? value;
      for (const key of [value, value, older]) {
        await Promise.all(this.#ports().map((port) => this.#refused(port, key)));
      }
      await delay(PAUSE_MS);
    }
  }

  async #use(port: number, key: string): Promise<void> {
    const status = await this.#scan(port, key);
    if (status === 401) this.problems.push('a new key was refused');
  }

  async #refused(port: number, key: string): Promise<void> {
    const status = await this.#scan(port, key);
    if (status === null) return;
    this.askedAfter += 1;
    if (status === 401 || status >= 500) return;
    this.acceptedAfter += 1;
    this.problems.push(`${status} after a revocation was answered`);
  }

  /** Null: no answer. */
  async #scan(port: number, key: string): Promise<number | null> {
    const answer = await upload(`http://127.0.0.1:${port}`, `${this.#random()}`, { key }).catch(() => null);
    if (answer?.headers.has('x-scan-id')) this.#account.count(answer.status, answer.headers.get('x-ratelimit-reset'));
    return answer?.status ?? null;
  }
}

/** Reads the newest page of an account again and again: no scan is on it twice. */
export async function readHistory(
  { port }: Pick<Place, 'port'>,
  key: string,
  isOver: () => boolean,
): Promise<{ readonly pages: number; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  let pages = 0;
  while (!isOver()) {
    const answer = await ask(`http://127.0.0.1:${port}/api/v1/scans?limit=100`, {
      headers: { 'X-API-KEY': key },
      signal: AbortSignal.timeout(PATIENCE_MS),
    }).catch(() => null);
    if (answer?.status === 200) {
      const ids = Page.parse(answer.body).content.map(({ id }) => id);
      if (new Set(ids).size < ids.length) problems.push('a scan is on a page of the history twice');
      pages += 1;
    } else if (answer?.status === 500) problems.push('a page of the history was answered 500');
    await delay(PAUSE_MS);
  }
  return { pages, problems };
}

/** What the second account may scan beyond what it has, so that its hour runs out under each fault. */
export async function setLimit(operator: Operator, { id }: Account, ownLimit: number): Promise<void> {
  await operator.ask(`/web/admin/accounts/${id}`, { method: 'PUT', body: JSON.stringify({ ownLimit }) }, [200]);
}
