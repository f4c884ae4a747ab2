// An upload that is a form (multipart/form-data): where the files lie in the body, so that each is looked at by itself.
import { createHash, type Hash } from 'node:crypto';
import { Failure } from '../errors.js';
import { baseName } from '../filename.js';
import { ICAP_FORM_FILES, ICAP_FORM_PARTS, MULTIPART_FIELD_BYTES } from '../limits.js';
import { MultipartParser } from '../scan/http/multipart-parser.js';
import { MalformedMultipart, readBoundary } from '../scan/http/part-headers.js';

export interface FormFile {
  /** As shown; empty where the client says none. */
  readonly filename: string;
  /** In the body. */
  readonly offset: number;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Null: it is no form. `problem`: it says that it is one, and can't be read. */
export function openForm(contentType: string | null): UploadForm | null {
  try {
    const boundary = readBoundary(contentType ?? undefined);
    return boundary === null ? null : new UploadForm(boundary);
  } catch (error) {
    return new UploadForm('', problemOf(error));
  }
}

export class UploadForm extends MultipartParser {
  readonly #files: FormFile[];
  #problem: Failure | null;
  #name: string;
  #isFile: boolean;
  #offset: number;
  #sizeBytes: number;
  #hash: Hash | null;

  constructor(boundary: string, problem: Failure | null = null) {
    super(boundary, ICAP_FORM_PARTS);
    this.#files = [];
    this.#problem = problem;
    this.#name = '';
    this.#isFile = false;
    this.#offset = 0;
    this.#sizeBytes = 0;
    this.#hash = null;
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

  protected onPart(name: string, filename: string | null, offset: number): void {
    this.#isFile = filename !== null;
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
    if (this.#hash === null || (!this.#isFile && this.#sizeBytes <= MULTIPART_FIELD_BYTES)) return;
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
