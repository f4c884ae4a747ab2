// A streaming reader of a scan form: one file or one url, and what a client says beside the content. A wrong form is refused before the rest arrives.
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { encryptedPolicies, heuristicsPolicies, type ScanPolicy } from '../../engine/verdict.js';
import { Failure } from '../../errors.js';
import { baseName } from '../../filename.js';
import { METADATA_BYTES, MULTIPART_ENVELOPE_BYTES, MULTIPART_FIELD_BYTES, MULTIPART_PARTS_MAX } from '../../limits.js';
import { MalformedMultipart, MultipartParser, parsePartHeaders } from './multipart-parser.js';

export interface FormTarget {
  /** Takes bytes of the file, which are the target's only until this returns. What it throws is the end of the body. */
  onFileBytes(bytes: Uint8Array): void;
}

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const NOTHING_SAID: Buffer[] = [];

export class MultipartReader extends MultipartParser {
  readonly #target: FormTarget;

  /** As shown; null until the head of its part is there. Also of a form that is refused then. */
  filename: string | null = null;
  readonly envelopeBytes: number = MULTIPART_ENVELOPE_BYTES;
  /** Null: nothing was said. */
  options: RequestOptions | null;
  /** Of its part. */
  #option: Buffer[] = NOTHING_SAID;
  #optionName: ReturnType<typeof optionNamed> = null;
  /** Of the part `url`. */
  #url: Buffer[] | null = null;
  #fileParts = 0;
  /** Of the part that is read. */
  #part: 'file' | 'url' | 'urlBesideFile' | 'option' | 'other' = 'other';
  #fieldBytes = 0;
  /** The name of a part that is a file input which was left empty, unless bytes follow. */
  #leftEmpty: string | null = null;

  /** `options`: what was said beside the form. */
  constructor(boundary: string, target: FormTarget, options: RequestOptions | null = null) {
    super(boundary, MULTIPART_PARTS_MAX);
    this.#target = target;
    this.options = options;
  }

  /**
   * The body is over. Null: it was a file; otherwise the text of the url. Throws MalformedMultipart unless the closing delimiter was
   * seen, Failure `nothingToScan` or `urlRejected`.
   */
  end(): string | null {
    this.assertEnd();
    if (this.filename !== null) return null;
    if (this.#url === null) throw new Failure('nothingToScan');
    const text = Buffer.concat(this.#url);
    // It is in another character set, or in none: with U+FFFD in the place of its bytes it would be another URL.
    if (!isUtf8(text)) throw new Failure('urlRejected', 'malformed URL');
    return text.toString('utf8');
  }

  protected onPartEnd(): void {
    if (this.#part === 'option' && this.#optionName !== null)
      this.options?.setBytes(this.#optionName, Buffer.concat(this.#option));
  }

  protected onPart(headers: string): void {
    const { name, filename } = parsePartHeaders(headers);
    this.#fieldBytes = 0;
    this.#part = 'other';
    // A part without a filename is a field, whatever its type; `file` without one is an upload that lost its name, unless it is empty.
    this.#leftEmpty = filename === '' || (filename === null && name === 'file') ? name : null;
    if (this.#leftEmpty === null && filename !== null) this.#beginFile(name, filename);
    else if (name === 'url' && filename === null) this.#beginUrl();
    else if (filename === null) this.#beginOption(optionNamed(name));
  }

  #beginFile(name: string, filename: string): void {
    this.#fileParts += 1;
    if (this.#fileParts > 1) throw new Failure('severalFiles');
    if (name !== 'file') return;
    this.filename = baseName(filename);
    // Forms send the url that was left empty, too.
    if (this.#url !== null && !this.#url.every(isBlank)) throw new Failure('fileAndUrl');
    if (this.filename === null) throw new Failure('filenameMissing');
    this.#part = 'file';
  }

  #beginUrl(): void {
    if (this.filename !== null) {
      this.#part = 'urlBesideFile';
      return;
    }
    if (this.#url !== null) throw new Failure('severalFiles');
    this.#url = [];
    this.#part = 'url';
  }

  #beginOption(name: ReturnType<typeof optionNamed>): void {
    if (name === null) return;
    this.options ??= new RequestOptions();
    this.options.assertOnce(name);
    this.#optionName = name;
    this.#option = [];
    this.#part = 'option';
  }

  protected onContent(bytes: Buffer): void {
    if (this.#leftEmpty !== null) {
      this.#beginFile(this.#leftEmpty, '');
      this.#leftEmpty = null;
    }
    if (this.#part === 'file') {
      this.#target.onFileBytes(bytes);
      return;
    }
    this.#fieldBytes += bytes.length;
    if (this.#fieldBytes > MULTIPART_FIELD_BYTES) {
      throw new MalformedMultipart(`a field over ${MULTIPART_FIELD_BYTES} bytes`);
    }
    if (this.#part === 'url') this.#url?.push(Buffer.from(bytes));
    else if (this.#part === 'option') this.#option.push(Buffer.from(bytes));
    else if (this.#part === 'urlBesideFile' && !isBlank(bytes)) throw new Failure('fileAndUrl');
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === SPACE || byte === TAB || byte === CR || byte === LF);
}

/** But for tabs and line ends. Postgres has no text with NUL in it; nobody can read the others. */
const CONTROL = /[^\P{Cc}\t\n\r]/u;

/** As parameters and JSON fields, and of a form. */
export const optionFields = {
  metadata: z
    .string()
    .optional()
    .describe(
      `Your own text about the scan, at most ${METADATA_BYTES} bytes: it is kept with it, and means nothing to us.`,
    ),
  encrypted: z
    .enum(encryptedPolicies)
    .optional()
    .describe(
      '`reject`: content with members that need a password is a 422. `allow`: the verdict is about all the others, with the notice `encrypted`.',
    ),
  heuristics: z
    .enum(heuristicsPolicies)
    .optional()
    .describe(
      '`off`: what the engine merely suspects (names that begin with `Heuristics.`) is no infection, and a notice.',
    ),
};
type OptionName = keyof typeof optionFields;
export type SaidOptions = { readonly [Name in OptionName]?: string | undefined };

const NAMES: readonly OptionName[] = ['metadata', 'encrypted', 'heuristics'];

/** Null: it is another field of a form. */
export const optionNamed = (name: string): OptionName | null => NAMES.find((one) => one === name) ?? null;

/** Each once, whatever the way by which it comes. */
export class RequestOptions {
  metadata: string | null = null;
  /** Null, as the next one: as the service has it. */
  encrypted: ScanPolicy['encrypted'] | null = null;
  heuristics: ScanPolicy['heuristics'] | null = null;

  /** Throws Failure `badRequest`. */
  assertOnce(name: OptionName): void {
    if (this[name] !== null) throw new Failure('badRequest', `${name}: given twice`);
  }

  /** Throws Failure `badRequest`. */
  set(name: OptionName, text: string): void {
    this.assertOnce(name);
    if (name === 'metadata') this.metadata = metadataOf(text);
    else if (name === 'encrypted') this.encrypted = oneOf(name, encryptedPolicies, text);
    else this.heuristics = oneOf(name, heuristicsPolicies, text);
  }

  /** The same of bytes as they were sent. */
  setBytes(name: OptionName, bytes: Buffer): void {
    if (!isUtf8(bytes)) throw new Failure('badRequest', `${name}: must be UTF-8`);
    this.set(name, bytes.toString('utf8'));
  }

  /** What was said of the policy; empty: nothing. */
  get policyText(): string {
    return this.encrypted === null && this.heuristics === null ? '' : `${this.encrypted} ${this.heuristics}`;
  }

  addAll(said: SaidOptions): void {
    for (const name of NAMES) {
      const text = said[name];
      if (text !== undefined) this.set(name, text);
    }
  }
}

function metadataOf(text: string): string {
  if (Buffer.byteLength(text) > METADATA_BYTES) {
    throw new Failure('badRequest', `metadata: must be at most ${METADATA_BYTES} bytes long`);
  }
  if (CONTROL.test(text)) throw new Failure('badRequest', 'metadata: must not have control characters');
  return text;
}

function oneOf<Value extends string>(name: OptionName, values: readonly Value[], text: string): Value {
  const value = values.find((one) => one === text);
  if (value === undefined) throw new Failure('badRequest', `${name}: must be one of ${values.join(', ')}`);
  return value;
}
