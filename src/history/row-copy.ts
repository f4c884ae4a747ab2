// Rows as the database takes them fastest: `COPY scans FROM STDIN (FORMAT binary)` (PostgreSQL 18, COPY, "Binary Format").
import type { ScanRow } from './scan-row.js';

/** In the order in which `#add` writes them. */
const COLUMNS = [
  ...['id', 'sha256', 'user_id', 'key_id'],
  ...['creation_date', 'last_update', 'duration_ms', 'infected', 'status', 'size_bytes', 'filename', 'detected_type'],
  ...['notices', 'virus_name', 'env', 'error', 'engine', 'metadata', 'url', 'signatures', 'protocol'],
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
/** Without its key, with both lengths. */
const OWNER_BYTES = UUID_BYTES + 8;
const DIGEST_BYTES = 32;
const DIGEST_DIGITS = 64;
/** 2000-01-01, from which Postgres counts microseconds. */
const EPOCH_MS = 946_684_800_000;
const TWO_16 = 0x1_0000;
const TWO_32 = 0x1_0000_0000;
/** The type `text`, as an array says it of its elements. */
const TEXT_OID = 25;
const DASH = 0x2d;

/** Of a hexadecimal digit. */
const VALUES = new Uint8Array(128);
for (let value = 0; value < 16; value += 1) VALUES[value.toString(16).charCodeAt(0)] = value;

/** Two of them, with dashes. */
const DIGITS = Buffer.alloc(256);
const NONE: readonly (string | null)[] = [];

/**
 * Rows of one COPY. Ids and digest come as bytes by one call, and are spread from there: a look at each character of a text takes several times as long.
 * Whose a row is, and its last columns, are copied from the row before where they are the same, as they nearly always are.
 */
export class RowCopy {
  #bytes: Buffer;
  #view: DataView;
  #at = HEAD.length;
  #last: ScanRow | null = null;
  /** Where its owner begins, and its last columns, which end it. */
  #ownerAt = 0;
  #textsAt = 0;

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
    const last = this.#last;
    const { userId, keyId, filename, detectedType, notices } = row;
    const { virusName, env, error, engine, metadata, url, signatures, protocol } = row;
    const texts = isSaidAgain(row, last) ? NONE : [virusName, env, error, engine, metadata, url, signatures, protocol];
    const start = this.#at;
    const idAt = start + 6;
    const sameBytes = texts === NONE ? start - this.#textsAt : 0;
    let characters = filename.length + (detectedType?.length ?? 0);
    for (const text of texts) characters += text?.length ?? 0;
    for (const notice of notices) characters += notice.length;
    this.#need(FIXED_BYTES + CHARACTER_BYTES_MAX * characters + sameBytes);
    this.#view.setInt16(start, COLUMNS.length);
    this.#at += 2;
    this.#addDigits(row.id, row.sha256);
    const ownerAt = this.#at;
    if (last?.userId === userId && last.keyId === keyId)
      this.#repeat(this.#ownerAt, keyId === null ? OWNER_BYTES : OWNER_BYTES + UUID_BYTES);
    else this.#addDigits(userId, keyId);
    // RFC 9562 section 5.7: an id begins with the time at which it was made.
    this.#addNumbers(row, this.#view.getUint32(idAt) * TWO_16 + this.#view.getUint16(idAt + 4));
    this.#encode(filename);
    this.#encode(detectedType);
    const textsAt = this.#at;
    if (texts === NONE) this.#repeat(this.#textsAt, sameBytes);
    else this.#addNotices(notices);
    for (const text of texts) this.#encode(text);
    this.#last = row;
    this.#ownerAt = ownerAt;
    this.#textsAt = textsAt;
  }

  /** Of the row before. */
  #repeat(from: number, bytes: number): void {
    this.#bytes.copyWithin(this.#at, from, from + bytes);
    this.#at += bytes;
  }

  /** An id with a digest or another id: two digits are a byte, and dashes are none. */
  #addDigits(one: string, other: string | null): void {
    DIGITS.write(other === null ? one : one + other, 'latin1');
    const bytes = this.#bytes;
    let at = this.#at;
    let from = 0;
    for (const digits of [one, other]) {
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

  #addNumbers(row: ScanRow, createdMs: number): void {
    const { lastUpdateMs, durationMs, status, sizeBytes } = row;
    const view = this.#view;
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
    view.setInt8(at + 12, row.virusName === null ? 0 : 1);
    view.setInt32(at + 13, 2);
    view.setInt16(at + 17, status);
    at += 19;
    view.setInt32(at, sizeBytes === null ? NULL_LENGTH : 4);
    if (sizeBytes !== null) view.setInt32(at + 4, sizeBytes);
    this.#at = at + (sizeBytes === null ? 4 : 8);
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

  #encode(text: string | null): void {
    const length = text === null ? NULL_LENGTH : this.#bytes.write(text, this.#at + 4);
    this.#view.setInt32(this.#at, length);
    this.#at += 4 + Math.max(0, length);
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

/** Its last columns are those of the row before. */
function isSaidAgain(row: ScanRow, last: ScanRow | null): boolean {
  return (
    row.notices.length === 0 &&
    last?.notices.length === 0 &&
    row.virusName === last.virusName &&
    row.env === last.env &&
    row.error === last.error &&
    row.engine === last.engine &&
    row.metadata === last.metadata &&
    row.url === last.url &&
    row.signatures === last.signatures &&
    row.protocol === last.protocol
  );
}
