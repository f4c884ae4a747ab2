// Files of databases that gates are made from: containers (.cvd, .cld, .cud), whose signatures libclamav checks when it loads them, and bytecode programs (.cbc).
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';

export interface Member {
  readonly name: string;
  /** Null: it was not asked for. */
  readonly content: Buffer | null;
}

const HEADER_BYTES = 512;
const BLOCK_BYTES = 512;
/** Official containers have some thirty. */
const MEMBERS_MAX = 10_000;
/** The largest official member has 200 MB; what is asked for is smaller. */
const KEPT_BYTES_MAX = 512 * 1024 * 1024;
const TOTAL_BYTES_MAX = 8 * 1024 * 1024 * 1024;
const GZIP = [0x1f, 0x8b];

/** Fields of a tar header: where they begin and end. */
const NAME = [0, 100] as const;
const SIZE = [124, 136] as const;
const TYPE = 156;

/** What is in a container: 512 bytes of header, then a tar archive, compressed or not. Rejects when it is damaged or larger than anything official. */
export async function* membersOf(path: string, isWanted: (name: string) => boolean): AsyncGenerator<Member> {
  const blocks = readBlocks(path);
  let keptBytes = 0;
  for (let count = 0; ; count += 1) {
    const header = await blocks.take(BLOCK_BYTES);
    if (header === null && count === 0) throw damaged(path);
    // An archive ends with blocks of zeros, or with the file.
    if (header === null || header.every((byte) => byte === 0)) return;
    const name = textOf(header, NAME);
    const size = Number.parseInt(textOf(header, SIZE), 8);
    const isFile = header[TYPE] === 0 || header[TYPE] === '0'.charCodeAt(0);
    if (!isFile || name === '' || !Number.isSafeInteger(size) || size < 0 || count === MEMBERS_MAX) throw damaged(path);
    const isKept = isWanted(name);
    if (isKept) keptBytes += size;
    if (keptBytes > KEPT_BYTES_MAX) throw damaged(path);
    const content = isKept ? await blocks.take(size) : null;
    if (isKept && content === null) throw damaged(path);
    if (!(await blocks.skip(isKept ? padding(size) : size + padding(size)))) throw damaged(path);
    yield { name, content };
  }
}

const damaged = (path: string): Error => new Error(`${path} is not a ClamAV container that can be read`);

const padding = (size: number): number => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;

function textOf(header: Buffer, [start, end]: readonly [number, number]): string {
  const text = header.toString('latin1', start, end);
  const zero = text.indexOf('\0');
  return (zero < 0 ? text : text.slice(0, zero)).trim();
}

function readBlocks(path: string) {
  const chunks = unpacked(path);
  let total = 0;
  let held: Buffer = Buffer.alloc(0);

  /** The next piece, of at most so many bytes. */
  async function piece(bytes: number): Promise<Buffer | null> {
    if (held.length === 0) {
      const next = await chunks.next();
      if (next.done === true) return null;
      held = next.value;
      total += held.length;
      if (total > TOTAL_BYTES_MAX) throw damaged(path);
    }
    const taken = held.subarray(0, bytes);
    held = held.subarray(taken.length);
    return taken;
  }

  return {
    /** So many bytes; null when the file ends before. */
    async take(bytes: number): Promise<Buffer | null> {
      const pieces: Buffer[] = [];
      for (let left = bytes; left > 0; ) {
        const next = await piece(left);
        if (next === null) return null;
        pieces.push(next);
        left -= next.length;
      }
      return Buffer.concat(pieces);
    },
    /** False when the file ends before. */
    async skip(bytes: number): Promise<boolean> {
      for (let left = bytes; left > 0; ) {
        const next = await piece(left);
        if (next === null) return false;
        left -= next.length;
      }
      return true;
    },
  };
}

async function* unpacked(path: string): AsyncGenerator<Buffer> {
  const compressed = await isCompressed(path);
  const file = createReadStream(path, { start: HEADER_BYTES });
  if (!compressed) {
    yield* file;
    return;
  }
  const gunzip = createGunzip();
  file.on('error', (error) => gunzip.destroy(error));
  yield* file.pipe(gunzip);
}

async function isCompressed(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(GZIP.length), 0, GZIP.length, HEADER_BYTES);
    return bytesRead === GZIP.length && GZIP.every((byte, index) => buffer[index] === byte);
  } finally {
    await file.close();
  }
}

export interface Program {
  /** The logical signature that makes it run, as a line of an .ldb file; null: it runs without one. */
  readonly trigger: string | null;
  /** It runs where its trigger matches, and nothing comes of it but a name: no layer, no change in how others look. */
  readonly onlyFinds: boolean;
}

const MAGIC = 'ClamBC';
/** Kinds from here on are called at a point of the parsing of a file, as unpackers are. */
const KIND_LOGICAL = 256;
/** What it calls, in a line of its own that begins with this. */
const CALLS = 'E';
/** Those that read the content, calculate, or give a name. Others write files, hand layers on, or change what is looked for. */
const HARMLESS_CALLS = new Set([
  ...'setvirusname read seek file_find file_find_limit file_byteat read_number memstr malloc hex2ui atoi'.split(' '),
  ...'debug_print_uint debug_print_str debug_print_str_nonl debug_print_str_start bytecode_rt_error'.split(' '),
  ...'engine_functionality_level engine_dconf_level engine_scan_options get_pe_section pe_rawaddr'.split(' '),
  ...'matchicon disasm_x86 get_environment entropy_buffer ilog2 ipow iexp isin icos'.split(' '),
]);

/** A bytecode program: what makes it run, and whether all that it can do is to find something (ClamAV's sources, bytecode.c). Null: it is none that is understood. */
export function readProgram(content: Buffer): Program | null {
  const lines = content.toString('latin1').split('\n');
  const [header = '', second = ''] = lines;
  if (!header.startsWith(MAGIC)) return null;
  const calls = lines.filter((line) => line.startsWith(CALLS));
  try {
    const isLogical = kindOf(header.slice(MAGIC.length)) === KIND_LOGICAL;
    const names = calls.flatMap((line) => namesOf(line.slice(CALLS.length)));
    const trigger = second.includes(';') ? second.replace(/\r$/, '') : null;
    return {
      trigger,
      onlyFinds: isLogical && trigger !== null && calls.length === 1 && names.every((name) => HARMLESS_CALLS.has(name)),
    };
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The header: level, time, author, excluded targets, kind. */
function kindOf(text: string): number {
  const reader = readerOf(text);
  reader.number();
  reader.number();
  reader.text();
  reader.number();
  return reader.number();
}

/** The largest number of a call, how many there are, and of each its number, its type and its name. */
function namesOf(text: string): string[] {
  const reader = readerOf(text);
  reader.number();
  const count = reader.number();
  const names: string[] = [];
  for (let index = 0; index < count; index += 1) {
    reader.number();
    reader.number();
    names.push(reader.text());
  }
  return names;
}

/**
 * Numbers are their count of digits, then the digits, the lowest first; a text is a bar, the count of its bytes, then two digits for each.
 * A digit is a character from "`" (0) to "o" (15). Throws RangeError where it is none.
 */
function readerOf(text: string): { number(): number; text(): string } {
  let at = 0;
  const digit = (): number => {
    const value = text.charCodeAt(at) - 0x60;
    if (!(value >= 0 && value <= 0xf)) throw new RangeError('no digit of a program');
    at += 1;
    return value;
  };
  const number = (): number => {
    const digits = digit();
    let value = 0;
    for (let index = 0; index < digits; index += 1) value += digit() * 16 ** index;
    return value;
  };
  return {
    number,
    text: () => {
      if (text[at] !== '|') throw new RangeError('no text of a program');
      at += 1;
      const bytes = number();
      let read = '';
      for (let index = 0; index < bytes; index += 1) read += String.fromCharCode(digit() + digit() * 16);
      return read.replace(/\0$/, '');
    },
  };
}
