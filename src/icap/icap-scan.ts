// A scan that comes by ICAP: the body of one request in; what is made of it is the connection's. A body that is a form (multipart/form-data) is one scan for each of its files. The
// first has the place of the body's own scan, and the others one of their own each: a form with one file costs one unit and has one row. None of them copies anything: the
// body stays where it has arrived until all are done with it.
import { createHash, type Hash } from 'node:crypto';
import type { Access } from '../admission/access.js';
import { Failure } from '../errors.js';
import { baseName, extensionOf } from '../filename.js';
import { ICAP_FORM_FILES, ICAP_FORM_PARTS, MULTIPART_FIELD_BYTES } from '../limits.js';
import { Content, type ContentOwner, type Lender, limitText } from '../scan/content.js';
import {
  boundaryOf,
  MalformedMultipart,
  MultipartParser,
  mediaTypeOf,
  parseFileHeaders,
  parsePartHeaders,
} from '../scan/http/multipart-parser.js';
import type { ScanParts } from '../scan/scan.js';
import { type Stream, StreamScan } from '../scan/stream-scan.js';
import { type IcapOutcome, type OutcomeSettings, outcomeOf, worstOf } from './answers.js';

export interface ScanOwner extends Stream<IcapScan> {
  answer(scan: IcapScan): void;
  onSurprise(requestId: string, error: unknown): void;
}

interface IcapContent {
  readonly requestId: string;
  readonly limitBytes: number;
  /** Null: nobody has said it. */
  readonly declaredBytes: number | null;
  /** Why it is not looked at; null: it is. */
  readonly refusal: Failure | null;
  /** As shown. */
  readonly filename: string;
  /** What the client says of the one whom it asks for; null: nothing. */
  readonly metadata: string | null;
  /** The client may have to have it back. */
  readonly isKept: boolean;
}

export class IcapScan extends StreamScan {
  override readonly protocol = 'icap';
  protected readonly limitBytes: number;
  readonly #declaredBytes: number | null;
  readonly #refusal: Failure | null;
  protected readonly stream: ScanOwner;

  constructor(parts: ScanParts, owner: ScanOwner, content: IcapContent) {
    super(parts, content.requestId);
    this.limitBytes = content.limitBytes;
    this.filename = content.filename;
    this.metadata = content.metadata;
    this.isKept = content.isKept;
    this.#declaredBytes = content.declaredBytes;
    this.#refusal = content.refusal;
    this.stream = owner;
  }

  outcome(settings: OutcomeSettings): IcapOutcome {
    return outcomeOf(this, settings);
  }

  /** As it was sent, while it is kept. */
  get body(): Content | null {
    return this.received;
  }

  protected receive(): void {
    if (this.#refusal !== null) throw this.#refusal;
    this.openContent(this.#declaredBytes);
    this.stream.goOn(this);
  }

  /** Room was asked for as much as the HTTP headers say. */
  protected override assertRoom(totalBytes: number): void {
    if (totalBytes > (this.#declaredBytes ?? this.limitBytes)) throw this.#tooMuch();
  }

  #tooMuch(): Failure {
    return this.#declaredBytes === null
      ? new Failure('fileTooLarge')
      : new Failure('scanIncomplete', 'the body is longer than its Content-Length');
  }

  /** The limit of files by HTTP is another one: the row has the one that holds here. */
  protected override fail(problem: unknown): void {
    const isTooLarge = problem instanceof Failure && problem.code === 'fileTooLarge';
    super.fail(isTooLarge ? new Failure('acceptedTooLarge', limitText(this.limitBytes)) : problem);
  }

  protected answer(): void {
    const { problem, verdict } = this;
    if (verdict === null && !(problem instanceof Failure)) this.stream.onSurprise(this.requestId, problem);
    this.onDone();
  }

  /** It has an outcome. */
  protected onDone(): void {
    this.stream.answer(this);
  }
}

interface FormFacts extends IcapContent {
  readonly form: UploadForm;
  /** Takes a unit for a further file. Throws a Failure. */
  readonly admit: () => Promise<Access>;
}

export class FormScan extends IcapScan {
  readonly #parts: ScanParts;
  readonly #facts: FormFacts;
  #whole: Content | null = null;
  #others: readonly FormFileScan[] = [];
  /** Of its files, those that have no outcome. */
  #open = 1;

  constructor(parts: ScanParts, owner: ScanOwner, facts: FormFacts) {
    super(parts, owner, facts);
    this.#parts = parts;
    this.#facts = facts;
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
    const owner: ScanOwner = {
      // Their bytes have come, and nobody is to be kept waiting.
      hold: () => undefined,
      goOn: () => undefined,
      answer: () => this.onDone(),
      onSurprise: (requestId, error) => this.stream.onSurprise(requestId, error),
    };
    this.#others = others.map((file) => new FormFileScan(this.#parts, owner, { ...this.#facts, file, views }));
    for (const other of this.#others) void other.admitBy(this.#facts.admit);
    super.onContent(this.received, extensionOf(this.filename));
  }

  override onGone(reason: Error): void {
    for (const other of this.#others) other.onGone(reason);
    super.onGone(reason);
  }

  protected override onDone(): void {
    this.#open -= 1;
    if (this.#open === 0) this.stream.answer(this);
  }

  override outcome(settings: OutcomeSettings): IcapOutcome {
    const outcomes = [super.outcome(settings), ...this.#others.map((other) => other.outcome(settings))];
    if (this.#facts.form.hasFields) outcomes.push({ kind: 'pass', notice: 'fields' });
    return worstOf(outcomes);
  }
}

interface FileFacts extends FormFacts {
  readonly file: FormFile;
  readonly views: Views;
}

/** A further file of a form: all of it is there. */
class FormFileScan extends IcapScan {
  constructor(parts: ScanParts, owner: ScanOwner, { file, views, ...facts }: FileFacts) {
    super(parts, owner, { ...facts, filename: file.filename, isKept: false, refusal: null });
    this.isWhole = true;
    this.received = views.of(file, this);
  }

  protected override receive(): void {
    if (this.received !== null) this.onContent(this.received, extensionOf(this.filename));
  }
}

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

export interface FormFile {
  /** As shown; empty where the client says none. */
  readonly filename: string;
  /** In the body. */
  readonly offset: number;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** What an upload says of its body. */
export interface UploadType {
  /** One for each line. */
  readonly types: readonly string[];
  readonly isEncoded: boolean;
}

/** In any place: some readers take the last of several types. */
const MULTIPART = /(?:^|,)[ \t]*multipart\//i;
const ONE_TYPE = /^multipart\/[^,]+$/;

/** The form, or other multipart body, that an upload is; null: it is none. One that can't be read, or has two types, is one all the same. */
export function openForm({ types, isEncoded }: UploadType): UploadForm | null {
  const [type = '', ...others] = types;
  if (!types.some((each) => MULTIPART.test(each))) return null;
  try {
    const mediaType = mediaTypeOf(type);
    if (others.length > 0 || !ONE_TYPE.test(mediaType)) throw new MalformedMultipart('it has more than one type');
    if (isEncoded) throw new MalformedMultipart('it is encoded as a whole');
    return new UploadForm({ boundary: boundaryOf(type), isForm: mediaType === 'multipart/form-data' });
  } catch (error) {
    return new UploadForm({ boundary: '', isForm: true }, problemOf(error));
  }
}

interface FormType {
  readonly boundary: string;
  /** Otherwise each part is a file. */
  readonly isForm: boolean;
}

/** A type that no field has: what is sent so is a file to many readers, also without a filename. */
const TYPED = /(?:^|\r\n)content-type:(?![ \t]*(?:text\/plain|application\/json)[ \t]*(?:;|\r|$))/i;

/** Where the files lie in the body. */
export class UploadForm extends MultipartParser {
  /** Something in it is not looked at by itself. */
  hasFields = false;
  readonly #isForm: boolean;
  readonly #files: FormFile[] = [];
  #problem: Failure | null;
  #name = '';
  #isFile = false;
  #offset = 0;
  #sizeBytes = 0;
  #hash: Hash | null = null;

  constructor({ boundary, isForm }: FormType, problem: Failure | null = null) {
    super(boundary, ICAP_FORM_PARTS);
    this.#isForm = isForm;
    this.#problem = problem;
  }

  /** What is wrong is said at the end: until then the whole body may be wanted back. */
  override write(bytes: Buffer): void {
    if (this.#problem !== null) return;
    try {
      super.write(bytes);
    } catch (error) {
      this.#problem = problemOf(error);
    }
  }

  /** Those that have any bytes. Throws Failure: it can't be told what the files are. */
  files(): readonly FormFile[] {
    if (this.#problem !== null) throw this.#problem;
    try {
      this.assertEnd();
    } catch (error) {
      throw problemOf(error);
    }
    return this.#files;
  }

  protected onPart(headers: string, offset: number): void {
    const { name, filename } = this.#isForm ? parsePartHeaders(headers) : parseFileHeaders(headers);
    this.#isFile = filename !== null || TYPED.test(headers);
    this.#name = filename ?? name;
    this.#offset = offset;
    this.#sizeBytes = 0;
    this.#hash = null;
  }

  protected onContent(bytes: Buffer): void {
    this.#sizeBytes += bytes.length;
    this.#hash ??= createHash('sha256');
    this.#hash.update(bytes);
  }

  /** A field that is longer than fields are is looked at as a file is, whatever it calls itself. */
  protected onPartEnd(): void {
    if (this.#hash === null) return;
    if (!this.#isFile && this.#sizeBytes <= MULTIPART_FIELD_BYTES) {
      this.hasFields = true;
      return;
    }
    if (this.#files.length === ICAP_FORM_FILES) throw new MalformedMultipart(`more than ${ICAP_FORM_FILES} files`);
    const filename = baseName(this.#name) ?? '';
    const sha256 = this.#hash.digest('hex');
    this.#files.push({ filename, offset: this.#offset, sizeBytes: this.#sizeBytes, sha256 });
  }
}

function problemOf(error: unknown): Failure {
  if (error instanceof MalformedMultipart) return new Failure('scanIncomplete', `malformed form: ${error.message}`);
  throw error;
}
