// A scan that was accepted before: its content comes from this node's disk, or from its URL, and its answer is its row in the history.
import { Failure, Unavailable } from '../../errors.js';
import type { PendingScan as Accepted } from '../../history/pending-scans.js';
import type { ScanRow } from '../../history/scan-row.js';
import type { Admitted, ScanParts } from '../scan.js';
import { type Stream, StreamScan } from '../stream-scan.js';
import { BrokenSeal } from './sealed-file.js';

/** Who has it done. None of its methods may throw. */
export interface PendingOwner {
  readonly limitBytes: number;
  /** Aborts at a stop. */
  readonly signal: AbortSignal;
  read(id: string): AsyncIterable<Buffer>;
  /** A thread is at it. */
  began(accepted: Accepted): void;
  /** The service couldn't do it. True: it will be tried again, by another object. */
  again(accepted: Accepted, reason: unknown): boolean;
  /** Its row is recorded. */
  ended(accepted: Accepted): void;
}

export class PendingScan extends StreamScan {
  protected readonly limitBytes: number;
  protected readonly stream: Stream<this>;
  readonly #accepted: Accepted;
  readonly #owner: PendingOwner;
  /** Goes on with the reading. Null: it isn't held. */
  #resume: (() => void) | null;
  #isHeld: boolean;

  constructor(parts: ScanParts, accepted: Accepted, admitted: Admitted, owner: PendingOwner) {
    super(parts, accepted.id);
    this.limitBytes = owner.limitBytes;
    this.stream = { hold: () => this.#hold(), goOn: () => this.#goOn() };
    this.#accepted = accepted;
    this.#owner = owner;
    this.#resume = null;
    this.#isHeld = false;
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
    try {
      this.parts.history.assertOpen();
    } catch (error) {
      this.account = this.#accepted.userId;
      this.fail(error);
      return;
    }
    this.begin(this.#accepted.userId);
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
        if (this.#isHeld) await new Promise<void>((resolve) => (this.#resume = resolve));
      }
      this.end();
    } catch (error) {
      // What is not as it was written is as lost as what is not there.
      const isLost =
        error instanceof BrokenSeal || (error instanceof Error && 'code' in error && error.code === 'ENOENT');
      this.fail(isLost ? new Unavailable('contentLost') : error);
    }
  }

  #hold(): void {
    this.#isHeld = true;
  }

  #goOn(): void {
    this.#isHeld = false;
    const resume = this.#resume;
    this.#resume = null;
    resume?.();
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
