// Scans accepted scans: a few at a time, the accounts in turn, and again when the service could not, until there is a verdict or it gives up.
import type { AdmissionStore } from '../../admission/admissions.js';
import { codeOf, messageOfError } from '../../error-text.js';
import { Failure, Unavailable } from '../../errors.js';
import type { PendingScan as Accepted, PendingScans } from '../../history/pending-scans.js';
import { type ScanRow, timeOfId } from '../../history/scan-row.js';
import { CONTENT_LIMIT_BYTES } from '../../limits.js';
import { endsWithin, later } from '../../waiting/within.js';
import type { Admitted, ScanParts } from '../scan.js';
import { HeldReading, StreamScan } from '../stream-scan.js';
import { BrokenSeal } from './sealed-file.js';

export interface RunnerOptions {
  /** With memory of its own: what waits for a verdict without a client keeps no upload waiting. */
  readonly scans: ScanParts;
  readonly table: Pick<PendingScans, 'began' | 'claimReturn'>;
  readonly read: (id: string) => AsyncIterable<Buffer>;
  /** Gives a unit back into its hour. */
  readonly giveBack: AdmissionStore['giveBack'];
  /** Of a content that was sent. */
  readonly limitBytes: number;
  /** At a time: what waits behind them waits here, not before those who wait for an answer. */
  readonly atOnce: number;
  readonly onProblem: (message: string) => void;
  /** Its row is recorded here, and not yet in the database. */
  readonly onRecorded: (id: string) => void;
}

/** A scan that takes longer says so in the database. */
const RUNNING_AFTER_MS = 200;
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 30_000;
/** So long the service may fail a scan, from its first attempt in this process on. */
const GIVE_UP_MS = 3_600_000;
/** At a stop, those that run may end for so long. The others are for the next start. */
const STOP_MS = 5_000;

interface Job {
  readonly accepted: Accepted;
  firstMs: number | null;
  pauseMs: number;
  timer: NodeJS.Timeout | null;
}

/** None of the methods that are for the scan may throw. */
export class Runner {
  readonly limitBytes: number;
  readonly read: RunnerOptions['read'];
  readonly #options: RunnerOptions;
  /** Of each account, those that wait for their turn. The account whose turn it was goes behind the others. */
  readonly #waiting = new Map<string, Set<Job>>();
  readonly #jobs = new Map<string, Job>();
  readonly #running = new Map<string, Job>();
  readonly #stopping = new AbortController();
  #onRest: () => void = () => undefined;

  constructor(options: RunnerOptions) {
    this.limitBytes = options.limitBytes;
    this.read = options.read;
    this.#options = options;
  }

  /** Aborts at a stop. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Accepted, and not known to be in the history. */
  get size(): number {
    return this.#jobs.size;
  }

  /** Epoch milliseconds of the oldest of them; null: there is none. */
  get oldestMs(): number | null {
    let oldest: string | null = null;
    for (const id of this.#jobs.keys()) if (oldest === null || id < oldest) oldest = id;
    return oldest === null ? null : timeOfId(oldest);
  }

  add(accepted: Accepted): void {
    if (this.#jobs.has(accepted.id)) return;
    const job = { accepted, firstMs: null, pauseMs: FIRST_PAUSE_MS, timer: null };
    this.#jobs.set(accepted.id, job);
    this.#wait(job);
  }

  /** The database has its row. */
  done(id: string): void {
    this.#jobs.delete(id);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('The server is stopping'));
    for (const { timer } of this.#jobs.values()) if (timer !== null) clearTimeout(timer);
    if (this.#running.size === 0) return;
    const rest = later();
    this.#onRest = rest.resolve;
    await endsWithin(rest.promise, STOP_MS);
  }

  #wait(job: Job): void {
    const { userId } = job.accepted;
    const line = this.#waiting.get(userId) ?? new Set();
    this.#waiting.set(userId, line.add(job));
    this.#serve();
  }

  #serve(): void {
    while (this.#running.size < this.#options.atOnce && !this.signal.aborted) {
      const job = this.#next();
      if (job === null) break;
      this.#run(job);
    }
    if (this.#running.size === 0) this.#onRest();
  }

  #next(): Job | null {
    for (const [userId, line] of this.#waiting) {
      const [job] = line;
      this.#waiting.delete(userId);
      if (job === undefined) continue;
      line.delete(job);
      if (line.size > 0) this.#waiting.set(userId, line);
      return job;
    }
    return null;
  }

  #run(job: Job): void {
    const { accepted } = job;
    job.firstMs ??= performance.now();
    this.#running.set(accepted.id, job);
    new AcceptedScan(this.#options.scans, accepted, this.#admitted(accepted), this).start();
  }

  /** As it was admitted when it was accepted. */
  #admitted({ id, userId, keyId, windowStartSeconds }: Accepted): Admitted {
    const { table, giveBack, onProblem } = this.#options;
    // Nobody is told of the quota: the answer that took the unit is given.
    const quota = { limit: 0, remaining: 0, resetEpochSeconds: windowStartSeconds + 3600 };
    return {
      ...{ outcome: 'admitted', userId, keyId, quota },
      async refund() {
        try {
          // Said before it is done: a process that dies between the two costs a unit, and gives none twice.
          if (await table.claimReturn(id)) await giveBack(userId, windowStartSeconds, keyId);
        } catch (error) {
          onProblem(`A unit could not be given back: ${messageOfError(error)}`);
        }
        return quota;
      },
    };
  }

  began({ id }: Accepted): void {
    const job = this.#running.get(id);
    if (job === undefined || job.timer !== null) return;
    const say = (): void => void this.#options.table.began(id).catch(() => undefined);
    job.timer = setTimeout(say, RUNNING_AFTER_MS).unref();
  }

  /** For the scan: the service couldn't do it. True: it will be tried again, by another object. */
  again({ id }: Accepted, reason: unknown): boolean {
    const job = this.#running.get(id);
    if (job === undefined) return false;
    const isStopping = this.signal.aborted;
    if (performance.now() - (job.firstMs ?? 0) > GIVE_UP_MS && !isStopping) return false;
    this.#left(id);
    if (isStopping) return true;
    if (job.pauseMs === LAST_PAUSE_MS) this.#options.onProblem(`An accepted scan waits: ${messageOfError(reason)}`);
    job.timer = setTimeout(() => {
      job.timer = null;
      this.#wait(job);
    }, job.pauseMs);
    job.pauseMs = Math.min(LAST_PAUSE_MS, 2 * job.pauseMs);
    return true;
  }

  ended({ id }: Accepted): void {
    this.#left(id);
    this.#options.onRecorded(id);
  }

  #left(id: string): void {
    const timer = this.#running.get(id)?.timer ?? null;
    this.#running.delete(id);
    if (timer !== null) clearTimeout(timer);
    // Later: the scan that has ended is still on the stack, with what it has of the threads and of memory.
    setImmediate(() => this.#serve());
  }
}

/** A scan that was accepted before: its content comes from this node's disk, or from its URL, and its answer is its row in the history. */
class AcceptedScan extends StreamScan {
  override hearsTurn = true;
  protected readonly limitBytes: number;
  protected readonly stream = new HeldReading(false);
  readonly #accepted: Accepted;
  readonly #owner: Runner;

  constructor(parts: ScanParts, accepted: Accepted, admitted: Admitted, owner: Runner) {
    super(parts, accepted.id);
    // What a URL brings is held to the limit of all others, for which its memory is.
    this.limitBytes = accepted.url === null ? owner.limitBytes : CONTENT_LIMIT_BYTES;
    this.#accepted = accepted;
    this.#owner = owner;
    this.access = admitted;
    this.scanId = accepted.id;
    this.keyId = accepted.keyId;
    this.filename = accepted.filename;
    this.metadata = accepted.metadata;
    this.policy = accepted.policy;
    // A clean scan of another account's is no reason to wait: nobody does.
    this.isWhole = true;
  }

  start(): void {
    const refusal = this.parts.history.refusal();
    if (refusal === null) this.begin(this.#accepted.userId);
    else {
      this.account = this.#accepted.userId;
      this.fail(refusal);
    }
  }

  protected receive(): void {
    const { url, sizeBytes } = this.#accepted;
    if (url !== null) {
      this.fetchUrl(url);
      return;
    }
    this.openContent(sizeBytes);
    void this.#read();
  }

  async #read(): Promise<void> {
    try {
      for await (const piece of this.#owner.read(this.#accepted.id)) {
        if (this.isDecided) return;
        this.chunk(piece);
        await this.stream.untilRoom();
      }
      this.end();
    } catch (error) {
      // What is not as it was written is as lost as what is not there.
      const isLost = error instanceof BrokenSeal || codeOf(error) === 'ENOENT';
      this.fail(isLost ? new Unavailable('contentLost') : error);
    }
  }

  protected override signal(): AbortSignal {
    return this.#owner.signal;
  }

  override onTurn(): void {
    super.onTurn();
    this.#owner.began(this.#accepted);
  }

  protected override fail(problem: unknown): void {
    if (this.isDecided) return;
    const isServices = !(problem instanceof Failure) || problem.status >= 500;
    const isLost = problem instanceof Unavailable && problem.reason === 'contentLost';
    if (isServices && !isLost && this.#owner.again(this.#accepted, problem)) this.drop();
    else super.fail(problem);
  }

  override row(): ScanRow {
    return { ...super.row(), wasPending: true };
  }

  override onUnrecorded(reason: unknown): void {
    if (this.#owner.again(this.#accepted, reason)) this.drop();
    else super.onUnrecorded(reason);
  }

  protected answer(): void {
    this.#owner.ended(this.#accepted);
  }
}
