// One scan, from its admission to its answer, whatever protocol it came by: it goes through the rooms itself, stage by stage.
import type { Engine } from '../engine/engine.js';
import { CLEAN, isSameBy, noticesOf, type Verdict } from '../engine/verdict.js';
import { errorTable, Failure, throwLater, Unavailable } from '../errors.js';
import { extensionOf, shownNameOf } from '../filename.js';
import type { Recorded } from '../history/intake.js';
import { timeId } from '../ids.js';
import { Content, type ContentOwner, receiveUrl } from './content.js';
import { type Admitted, ScanFacts } from './scan-facts.js';
import type { Known } from './verdicts/known.js';

export type { Admitted, EndedScan, ScanParts } from './scan-facts.js';

/** nginx's status for a client that went away; nobody receives it, the history shows it. */
const CLIENT_GONE = 499;

export abstract class Scan extends ScanFacts implements ContentOwner, Recorded {
  #hasBegun = false;
  #hasEnded = false;
  /** It is in the form, and the admission is waited for. */
  #url: string | null = null;
  /** What has come is looked at when it is admitted, not before. */
  #isPatient = false;
  #left: Error | null = null;

  // What a protocol does.

  protected abstract readonly limitBytes: number;
  /** Begins to hand on what the client sends. What it throws is the end. */
  protected abstract receive(): void;
  protected abstract endReceiving(): void;
  /** Keeps the client waiting, on our time. */
  protected abstract hold(): void;
  protected abstract goOn(): void;
  /** Nothing comes from the client while it waits: that it leaves is looked for, until it is no more. */
  protected abstract watch(): void;
  protected abstract unwatch(): void;
  /** Aborts when the client has left. */
  protected abstract signal(): AbortSignal;
  /** Answers, once; what it has for that is this object. Not called when the client has left. */
  protected abstract answer(): void;

  // Its admission.

  /**
   * Begins for an account that is admitted, or likely to be: nothing of it gets out before `onAdmission`, and a verdict that is remembered is true
   * for every account.
   */
  begin(account: string): void {
    this.account = account;
    this.#hasBegun = true;
    this.enter('receiving');
    if (this.#left !== null) {
      this.fail(this.#left);
      return;
    }
    const { signatures } = this.parts;
    if (signatures.serving.engine === null) {
      this.fail(new Unavailable(signatures.state().kind === 'failed' ? 'engineFailed' : 'engineLoading'));
      return;
    }
    try {
      this.receive();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Receives for an account that may not be admitted: no thread is asked, and no origin, before `onAdmission`. */
  expect(account: string): void {
    this.#isPatient = true;
    this.begin(account);
  }

  onAdmission(access: Admitted): void {
    this.times?.admitted();
    this.access = access;
    this.quota = access.quota;
    this.keyId = access.keyId;
    // A key's user never changes. If it did, the scan would have had another account's share: it is not answered.
    const isOther = this.#hasBegun && this.account !== access.userId;
    const problem = isOther ? new Error('Another user was admitted than was expected') : this.parts.history.refusal();
    if (problem !== null) {
      this.drop();
      this.onUnrecorded(problem);
      return;
    }
    this.scanId = timeId();
    if (this.isDecided) {
      // Perhaps before it began: there was no memory for what had arrived.
      this.account = access.userId;
      this.#record();
    } else if (!this.#hasBegun) this.begin(access.userId);
    else if (this.#url !== null) void this.#scanUrl(this.#url);
    else if (this.#isPatient && this.received?.isSealed) this.#look(this.received);
  }

  /** It isn't admitted: nothing gets out of what was begun. What a thread has it may end, and its verdict is remembered. */
  drop(): void {
    this.isDecided = true;
    this.endReceiving();
    this.#release();
    this.enter('gone');
  }

  // Its content.

  /** Opens the memory of the content. `expectedBytes`: what it may have at most, as was declared; null: nothing was. */
  protected openContent(expectedBytes: number | null): Content {
    const { account, limitBytes } = this;
    this.received = new Content(this.parts.uploadMemory, { account, limitBytes, expectedBytes }, this);
    return this.received;
  }

  /** To be called after bytes were appended. */
  protected holdIfFull(): void {
    if (this.stage !== 'receiving' || this.received === null || !this.received.isWaiting) return;
    this.enter('waitingForMemory');
    this.hold();
  }

  /** All of a content has come: it is looked at, or when there is room for what waits. Throws Failure `fileEmpty`. */
  protected endOfContent(): void {
    this.#hasEnded = true;
    const content = this.received;
    if (content === null) throw new Failure('fileEmpty');
    if (content.isWaiting) return;
    content.finish();
    this.isWhole = true;
    this.endReceiving();
    this.onContent(content, extensionOf(this.filename));
  }

  onRoom(): void {
    if (this.isDecided || this.received === null) return;
    this.enter('receiving');
    if (!this.#hasEnded) {
      this.goOn();
      return;
    }
    try {
      this.endOfContent();
    } catch (error) {
      this.fail(error);
    }
  }

  onNoRoom(reason: Failure): void {
    this.fail(reason);
  }

  /** It is in the request in the place of a content. An origin is asked only for those who are admitted. */
  protected fetchUrl(url: string): void {
    this.isWhole = true;
    this.endReceiving();
    if (this.access !== null) void this.#scanUrl(url);
    else {
      this.#url = url;
      this.enter('admitting');
    }
  }

  async #scanUrl(url: string): Promise<void> {
    this.enter('receiving');
    try {
      const name = shownNameOf(url);
      this.filename = name.filename;
      this.url = name.url;
      // An origin may take seconds, which are wasted when the client has left.
      this.hearsTurn = true;
      this.watch();
      const { account, limitBytes } = this;
      const content = await receiveUrl({ url, account, limitBytes, signal: this.signal() }, this.parts);
      this.received = content;
      if (this.isDecided) this.#release();
      else this.onContent(content, name.extension);
    } catch (error) {
      this.fail(error);
    }
  }

  // Its verdict.

  protected onContent(content: Content, extension: string): void {
    this.extension = extension;
    this.wholeBytes = content.sizeBytes;
    this.sha256 = content.sha256;
    if (this.#isPatient && this.access === null) this.stage = 'admitting';
    else this.#look(content);
  }

  #look(content: Content): void {
    const { signatures, known } = this.parts;
    const { engine } = signatures.serving;
    if (engine === null || known === null) {
      this.#askForThread(content);
      return;
    }
    const found = known.here(content, engine, this.account);
    if (found !== null && isSameBy(found.verdict, this.policy)) {
      this.#onKnown(found, engine);
      return;
    }
    const asked = found !== null || !known.isShared ? null : known.elsewhere(content, engine, this.account);
    if (asked === null) {
      this.#askForThread(content);
      return;
    }
    void asked.then((answer) => {
      if (answer === null || !isSameBy(answer.verdict, this.policy)) this.#askForThread(content);
      else this.#onKnown(answer, engine);
    });
  }

  #onKnown({ verdict, isOwn, durationMs, detectedType }: Known, engine: Engine): void {
    if (this.isDecided) return;
    this.verdict = verdict;
    this.lookedBy = engine;
    this.detectedType = detectedType;
    this.durationMs = isOwn ? 0 : durationMs;
    this.looked = isOwn ? 'for the account' : 'for another account';
    this.#decided();
  }

  #askForThread(content: Content): void {
    if (this.isDecided) return;
    if (this.parts.refused.has(content.sha256)) {
      this.fail(new Failure('scanIncomplete', 'engine crashed on this content'));
      return;
    }
    this.content = content.block;
    this.sizeBytes = content.sizeBytes;
    this.enter('scanning');
    this.parts.pool.ask(this);
    // A scan may wait for its thread for seconds: the time of a thread is for clients that are there.
    if (this.state !== 'waiting' && this.state !== 'ahead') return;
    this.hearsTurn = true;
    this.watch();
  }

  // What it hears from the threads.

  override onTurn(): void {
    this.hearsTurn = false;
    this.unwatch();
  }

  override onAnswer(verdict: Verdict, engine: Engine | null, durationMs: number): void {
    const content = this.received;
    const isComplete = verdict.kind === 'clean' || verdict.kind === 'infected';
    // By another policy it would be another one.
    const isForAll = verdict.kind !== 'clean' || verdict.suspected === undefined;
    if (isComplete && isForAll && engine !== null && content !== null) {
      const { detectedType } = this;
      this.parts.known?.keep(content, engine, this.account, { verdict, durationMs, detectedType });
    }
    if (this.isDecided) {
      this.#release();
      return;
    }
    this.durationMs = durationMs;
    if (verdict.kind === 'failed') this.fail(new Unavailable('engineStorage', { text: verdict.reason }));
    else if (verdict.kind === 'incomplete') this.fail(new Failure('scanIncomplete', verdict.reason));
    else if (engine === null) this.fail(new Error('A verdict without an engine'));
    else {
      this.verdict = verdict;
      this.lookedBy = engine;
      this.#decided();
    }
  }

  override onRefused(reason: unknown): void {
    this.fail(reason);
    this.#release();
  }

  override onOverdue(verdict: Verdict, starved: boolean, durationMs: number): void {
    if (starved) {
      this.fail(new Unavailable('queueSlow'));
      return;
    }
    this.durationMs = durationMs;
    this.fail(new Failure('scanIncomplete', verdict.kind === 'incomplete' ? verdict.reason : 'scan exceeded its time'));
  }

  override onLetGo(): void {
    this.#release();
  }

  /** A bug: the scan ends with a 500, where nothing has come of it before. */
  override onBroken(error: unknown): void {
    if (this.isOverdue || this.stage === 'gone') throwLater(error);
    else {
      this.verdict = null;
      this.problem = error;
      this.#decided();
    }
  }

  /** What is kept is needed no more. */
  letGo(): void {
    this.isKept = false;
    if (this.isDecided) this.#release();
  }

  /** Until its end at the threads its memory is theirs. */
  #release(): void {
    if (this.state !== 'idle' || this.isKept) return;
    this.received?.release();
    this.received = null;
    this.content = null;
  }

  // What came of it.

  /** The client has left. Its scan goes on where a thread is at it, and its time with it. */
  onGone(reason: Error): void {
    this.isGone = true;
    this.#left = reason;
    if (this.stage === 'receiving' || this.stage === 'waitingForMemory') this.fail(reason);
    else if (this.stage === 'scanning' && this.parts.pool.leave(this)) this.fail(reason);
  }

  protected fail(problem: unknown): void {
    if (this.isDecided) return;
    this.problem = problem;
    this.#decided();
  }

  #decided(): void {
    this.isDecided = true;
    if (this.sha256 === null) this.endReceiving();
    this.#release();
    if (this.access === null) this.enter('admitting');
    else this.#record();
  }

  #record(): void {
    this.enter('recording');
    const { verdict } = this;
    if (verdict === null) {
      void this.#settle();
      return;
    }
    if (verdict.kind === 'infected') this.virusName = verdict.virusName;
    const notice = this.lookedBy?.notice ?? null;
    if (verdict !== CLEAN || notice !== null) this.notices = noticesOf(verdict, notice);
    this.parts.history.append(this);
  }

  /** What a scan without a verdict costs, and what is said of it. */
  async #settle(): Promise<void> {
    const { problem, isGone } = this;
    if (isGone) {
      this.status = CLIENT_GONE;
      this.failure = 'clientGone';
      this.error = 'The client went away';
    } else if (problem instanceof Failure) {
      this.status = problem.status;
      this.failure = problem.label;
      this.error = problem.message;
    } else {
      this.status = errorTable.internal.status;
      this.failure = 'internal';
      this.error = errorTable.internal.error;
    }
    if (this.access !== null) this.quota = await this.parts.refunds.settle(problem, this.access, this);
    this.parts.history.append(this);
  }

  onRecorded(): void {
    this.parts.onEnded(this);
    this.#answered();
  }

  /** What can't be recorded is not answered: the history would lie. It has no id then, and costs no unit. */
  onUnrecorded(reason: unknown): void {
    void this.#unrecorded(reason);
  }

  async #unrecorded(reason: unknown): Promise<void> {
    this.isDecided = true;
    this.scanId = null;
    this.verdict = null;
    this.problem = reason;
    if (this.access !== null) this.quota = await this.access.refund();
    this.#answered();
  }

  #answered(): void {
    if (this.isGone) {
      this.enter('gone');
      this.onLeft();
    } else {
      this.enter('answered');
      this.answer();
    }
    if (this.times !== null) this.parts.traces?.ended(this, this.times);
  }

  protected onLeft(): void {
    // A protocol may have something to undo: it has ended, and nobody is there to be answered.
  }
}
