// A body that is a form, as one scan for each of its files. The first has the place of the body's own scan, and the others one of their own each: a form with one file costs
// one unit and has one row. None of them copies anything: the body stays where it has arrived until all are done with it.
import type { Access } from '../admission/access.js';
import { Failure } from '../errors.js';
import { extensionOf } from '../filename.js';
import { Content, type ContentOwner, type Lender } from '../scan/content.js';
import type { ScanParts } from '../scan/scan.js';
import { errorOf, type Outcome, type OutcomeSettings, worstOf } from './answers.js';
import { type IcapContent, IcapScan, type ScanOwner } from './icap-scan.js';
import type { FormFile, UploadForm } from './upload-form.js';

export interface FormFacts extends IcapContent {
  readonly form: UploadForm;
  /** Takes a unit for a further file. Throws a Failure. */
  readonly admit: () => Promise<Access>;
  readonly onSurprise: (scan: IcapScan, error: unknown) => void;
}

export class FormScan extends IcapScan {
  readonly #parts: ScanParts;
  readonly #facts: FormFacts;
  #whole: Content | null;
  #others: readonly FileScan[];
  /** Of its files, those that have no outcome. */
  #open: number;

  constructor(parts: ScanParts, owner: ScanOwner, facts: FormFacts) {
    super(parts, owner, facts);
    this.#parts = parts;
    this.#facts = facts;
    this.#whole = null;
    this.#others = [];
    this.#open = 1;
  }

  override chunk(bytes: Buffer): void {
    this.#facts.form.write(bytes);
    super.chunk(bytes);
  }

  override get body(): Content | null {
    return this.#whole ?? this.received;
  }

  protected override onContent(content: Content, extension: string): void {
    const [first, ...others] = this.#facts.form.files();
    // Nothing in it is a file: it is looked at as it is.
    if (first === undefined) {
      super.onContent(content, extension);
      return;
    }
    const views = new Views(content, 1 + others.length);
    this.#whole = content;
    this.filename = first.filename;
    this.received = views.of(first, this);
    this.#open = 1 + others.length;
    this.#others = others.map((file) => new FileScan(this.#parts, this, { ...this.#facts, file, views }));
    for (const other of this.#others) void other.admitBy(this.#facts.admit);
    super.onContent(this.received, extensionOf(this.filename));
  }

  override onGone(reason: Error): void {
    for (const other of this.#others) other.onGone(reason);
    super.onGone(reason);
  }

  protected override answer(): void {
    this.onFileDone();
  }

  onSurprise(scan: IcapScan, error: unknown): void {
    this.#facts.onSurprise(scan, error);
  }

  onFileDone(): void {
    this.#open -= 1;
    if (this.#open === 0) this.stream.answer(this);
  }

  override outcome(settings: OutcomeSettings): Outcome {
    return worstOf([super.outcome(settings), ...this.#others.map((other) => other.outcome(settings))]);
  }
}

interface FileFacts extends FormFacts {
  readonly file: FormFile;
  readonly views: Views;
}

/** A further file of a form: all of it is there. */
class FileScan extends IcapScan {
  readonly #form: FormScan;
  /** Why it was not admitted. */
  #refusal: unknown;

  constructor(parts: ScanParts, form: FormScan, { file, views, ...facts }: FileFacts) {
    super(parts, NOBODY, { ...facts, filename: file.filename, isKept: false, refusal: null });
    this.#form = form;
    this.#refusal = null;
    this.isWhole = true;
    this.received = views.of(file, this);
  }

  protected override turnedAway(problem: unknown): void {
    this.#refusal = problem;
    if (!(problem instanceof Failure)) this.#form.onSurprise(this, problem);
    this.#form.onFileDone();
  }

  protected override receive(): void {
    if (this.received !== null) this.onContent(this.received, extensionOf(this.filename));
  }

  protected override answer(): void {
    if (this.verdict === null && !(this.problem instanceof Failure)) this.#form.onSurprise(this, this.problem);
    this.#form.onFileDone();
  }

  override outcome(settings: OutcomeSettings): Outcome {
    return this.#refusal === null ? super.outcome(settings) : errorOf(this.#refusal, this.requestId);
  }
}

/** Its bytes have come, and nobody is to be kept waiting. */
const NOBODY: ScanOwner = {
  hold: () => undefined,
  goOn: () => undefined,
  answer: () => undefined,
  turnedAway: () => undefined,
};

/** Contents that are parts of another one, which goes back when the last of them does. */
class Views implements Lender {
  readonly largestBytes: number;
  readonly #whole: Content;
  #open: number;

  constructor(whole: Content, count: number) {
    this.largestBytes = whole.sizeBytes;
    this.#whole = whole;
    this.#open = count;
  }

  of({ offset, sizeBytes, sha256 }: FormFile, owner: ContentOwner): Content {
    const { accountId: account } = this.#whole;
    const view = new Content(this, { account, limitBytes: sizeBytes, expectedBytes: sizeBytes }, owner);
    view.block = this.#whole.block.subarray(offset, offset + sizeBytes);
    view.sizeBytes = sizeBytes;
    view.sha256 = sha256;
    this.seal(view);
    return view;
  }

  grow(): boolean {
    return false;
  }

  seal(content: Content): void {
    content.isSealed = true;
  }

  release(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#whole.release();
  }
}
