// A bytecode program, a .cbc file: what makes it run, and whether all that it can do is to find something (ClamAV's sources, bytecode.c).

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

/** Null: it is none that is understood. */
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

interface Reader {
  number(): number;
  text(): string;
}

/**
 * Numbers are their count of digits, then the digits, the lowest first; a text is a bar, the count of its bytes, then two digits for each.
 * A digit is a character from "`" (0) to "o" (15). Throws RangeError where it is none.
 */
function readerOf(text: string): Reader {
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
