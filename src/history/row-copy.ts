// Rows as the database takes them fastest: `COPY scans FROM STDIN (FORMAT binary)`, with what is counted of them by account, key and day (PostgreSQL 18, COPY, "Binary Format").
import { type ScanRow, timeOfId } from './scan-row.js';

/** In the order in which `#add` writes them. */
const COLUMNS = [
  ...['id', 'user_id', 'sha256', 'key_id'],
  ...['creation_date', 'last_update', 'duration_ms', 'infected', 'status', 'size_bytes', 'notices'],
  ...['filename', 'virus_name', 'env', 'error', 'engine', 'metadata', 'url', 'signatures', 'protocol', 'detected_type'],
];

export const COPY_SCANS = `COPY scans (${COLUMNS.join(', ')}) FROM STDIN (FORMAT binary)`;

/** Signature, flags and the length of an extension that there isn't. */
const HEAD = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const NULL_LENGTH = -1;
const END_OF_ROWS = -1;
const FIRST_BYTES_EACH = 512;
/** What a row has at most beside its texts. */
const FIXED_BYTES = 512;
/** In UTF-8, of a text's character; those outside of the first plane are two, with four bytes together. */
const CHARACTER_BYTES_MAX = 3;
const UUID_BYTES = 16;
const DIGEST_BYTES = 32;
const DIGEST_DIGITS = 64;
/** 2000-01-01, from which Postgres counts microseconds. */
const EPOCH_MS = 946_684_800_000;
const TWO_32 = 0x1_0000_0000;
/** The type `text`, as an array says it of its elements. */
const TEXT_OID = 25;
const DAY_MS = 86_400_000;
const DASH = 0x2d;

/** Of a hexadecimal digit. */
const VALUES = new Uint8Array(128);
for (let value = 0; value < 16; value += 1) VALUES[value.toString(16).charCodeAt(0)] = value;

/** Two ids, a digest and another id, with dashes. */
const DIGITS = Buffer.alloc(256);
/** Texts of a row, where they are ASCII; what doesn't fit is written text by text. */
const TEXTS = Buffer.alloc(4096);

/** How many rows of an account, a key and a UTC day have which status and verdict. */
export interface DayCount {
  readonly userId: string;
  /** Null: without one. */
  readonly keyId: string | null;
  /** Days since 1970. */
  readonly day: number;
  readonly status: number;
  readonly infected: boolean;
  scans: number;
}

/**
 * Rows of one COPY. The texts of a row come as bytes by two calls, for ids and for the others, and are spread from there: a call for each, or a look at
 * each character of a text, takes several times as long.
 */
export class RowCopy {
  readonly counts: DayCount[] = [];
  #bytes: Buffer;
  #view: DataView;
  #at = HEAD.length;

  constructor(rows: readonly ScanRow[]) {
    this.#bytes = Buffer.allocUnsafeSlow(HEAD.length + FIRST_BYTES_EACH * (rows.length + 1));
    this.#view = new DataView(this.#bytes.buffer);
    HEAD.copy(this.#bytes);
    for (const row of rows) this.#add(row);
  }

  bytes(): Uint8Array {
    this.#need(2);
    this.#view.setInt16(this.#at, END_OF_ROWS);
    return this.#bytes.subarray(0, this.#at + 2);
  }

  #add(row: ScanRow): void {
    const { virusName, error, engine, metadata, url, signatures, protocol, detectedType } = row;
    const texts = [row.filename, virusName, row.env, error, engine, metadata, url, signatures, protocol, detectedType];
    let all = '';
    for (const text of texts) if (text !== null) all += text;
    this.#need(
      FIXED_BYTES + CHARACTER_BYTES_MAX * (all.length + (row.notices.length === 0 ? 0 : row.notices.join('').length)),
    );
    this.#view.setInt16(this.#at, COLUMNS.length);
    this.#at += 2;
    this.#addDigits(row);
    this.#addNumbers(row, timeOfId(row.id));
    this.#addNotices(row.notices);
    if (TEXTS.write(all) === all.length) this.#addAscii(texts);
    else for (const text of texts) this.#encode(text);
  }

  /** Ids and digest: two digits are a byte, and dashes are none. */
  #addDigits({ id, userId, sha256, keyId }: ScanRow): void {
    DIGITS.write(id + userId + (sha256 ?? '') + (keyId ?? ''), 'latin1');
    const bytes = this.#bytes;
    let at = this.#at;
    let from = 0;
    for (const digits of [id, userId, sha256, keyId]) {
      const length = digits === null ? NULL_LENGTH : digits.length === DIGEST_DIGITS ? DIGEST_BYTES : UUID_BYTES;
      this.#view.setInt32(at, length);
      at += 4;
      for (const end = at + length; at < end; at += 1) {
        if (DIGITS[from] === DASH) from += 1;
        bytes[at] = ((VALUES[DIGITS[from] ?? 0] ?? 0) << 4) | (VALUES[DIGITS[from + 1] ?? 0] ?? 0);
        from += 2;
      }
    }
    this.#at = at;
  }

  #addNumbers(
    { userId, keyId, lastUpdateMs, durationMs, virusName, status, sizeBytes }: ScanRow,
    createdMs: number,
  ): void {
    const view = this.#view;
    const infected = virusName !== null;
    let at = this.#at;
    for (const epochMs of [createdMs, lastUpdateMs]) {
      const microseconds = (epochMs - EPOCH_MS) * 1000;
      const high = Math.floor(microseconds / TWO_32);
      view.setInt32(at, 8);
      view.setInt32(at + 4, high);
      view.setUint32(at + 8, microseconds - high * TWO_32);
      at += 12;
    }
    view.setInt32(at, 4);
    view.setInt32(at + 4, durationMs);
    view.setInt32(at + 8, 1);
    view.setInt8(at + 12, infected ? 1 : 0);
    view.setInt32(at + 13, 2);
    view.setInt16(at + 17, status);
    at += 19;
    view.setInt32(at, sizeBytes === null ? NULL_LENGTH : 4);
    if (sizeBytes !== null) view.setInt32(at + 4, sizeBytes);
    this.#at = at + (sizeBytes === null ? 4 : 8);
    this.#count({ userId, keyId, day: Math.floor(createdMs / DAY_MS), status, infected, scans: 1 });
  }

  /** An array of one dimension, which counts from 1; an empty one has none. */
  #addNotices(notices: readonly string[]): void {
    const start = this.#at;
    const isEmpty = notices.length === 0;
    for (const value of isEmpty ? [0, 0, TEXT_OID] : [1, 0, TEXT_OID, notices.length, 1]) {
      this.#at += 4;
      this.#view.setInt32(this.#at, value);
    }
    this.#at += 4;
    for (const notice of notices) this.#encode(notice);
    this.#view.setInt32(start, this.#at - start - 4);
  }

  #addAscii(texts: readonly (string | null)[]): void {
    const bytes = this.#bytes;
    let at = this.#at;
    let from = 0;
    for (const text of texts) {
      const length = text === null ? NULL_LENGTH : text.length;
      this.#view.setInt32(at, length);
      at += 4;
      for (const end = at + length; at < end; at += 1) {
        bytes[at] = TEXTS[from] ?? 0;
        from += 1;
      }
    }
    this.#at = at;
  }

  #encode(text: string | null): void {
    const length = text === null ? NULL_LENGTH : this.#bytes.write(text, this.#at + 4);
    this.#view.setInt32(this.#at, length);
    this.#at += 4 + Math.max(0, length);
  }

  /** Rows that follow each other are of one key and day, as a rule. */
  #count(row: DayCount): void {
    const { counts } = this;
    for (let index = counts.length - 1; index >= 0; index -= 1) {
      const known = counts[index];
      if (known?.userId !== row.userId || known.day !== row.day || known.status !== row.status) continue;
      if (known.infected !== row.infected || known.keyId !== row.keyId) continue;
      known.scans += 1;
      return;
    }
    counts.push(row);
  }

  /** There is room for so many bytes. */
  #need(bytes: number): void {
    if (this.#bytes.length - this.#at >= bytes) return;
    const larger = Buffer.allocUnsafeSlow(2 * this.#bytes.length + bytes);
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}
