// Bytecode programs as ClamAV writes them: what is read of their text.
import t from 'tap';
import { readProgram } from '../../../../src/engine/clamav/gates/program.js';

const [LOGICAL, UNPACKER] = [256, 257];
const TRIGGER = 'BC.Test.Program-1.{A,B};Engine:56-255,Target:1;0;6d61726b';

const digit = (value: number): string => String.fromCharCode(0x60 + value);

function number(value: number): string {
  const digits = value === 0 ? '' : [...value.toString(16)].reverse().join('');
  return digit(digits.length) + [...digits].map((one) => digit(Number.parseInt(one, 16))).join('');
}

function text(value: string): string {
  const bytes = [...Buffer.from(`${value}\0`, 'latin1')];
  return `|${number(bytes.length)}${bytes.map((byte) => digit(byte & 0xf) + digit(byte >> 4)).join('')}`;
}

function program(kind: number, calls: readonly string[], second = TRIGGER): Buffer {
  const header = `ClamBC${number(7)}${number(1_700_000_000)}${text('somebody')}${number(0)}${number(kind)}${number(56)}`;
  const list = calls.map((name, index) => number(index + 1) + number(80) + text(name)).join('');
  return Buffer.from(`${header}\n${second}\nTebaaa\nE${number(80)}${number(calls.length)}${list}\nA\n`, 'latin1');
}

t.test('one that runs at a trigger and calls nothing but what finds, only finds', async (t) => {
  t.same(readProgram(program(LOGICAL, ['read', 'seek', 'setvirusname'])), { trigger: TRIGGER, onlyFinds: true });
  t.same(readProgram(program(LOGICAL, [])), { trigger: TRIGGER, onlyFinds: true });
});

t.test('one that hands on layers, writes, runs elsewhere, or calls what nobody knows, does more', async (t) => {
  for (const call of ['extract_new', 'write', 'disable_bytecode_if', 'of_tomorrow']) {
    t.match(readProgram(program(LOGICAL, ['read', call])), { trigger: TRIGGER, onlyFinds: false }, call);
  }
  t.match(readProgram(program(UNPACKER, ['setvirusname'])), { onlyFinds: false });
  t.match(readProgram(program(LOGICAL, ['setvirusname'], 'BC.Test.Hook')), { trigger: null, onlyFinds: false });
  const whole = program(LOGICAL, ['read']).toString('latin1');
  t.match(readProgram(Buffer.from(whole.replace('\nE', '\nX'))), { onlyFinds: false }, 'what it calls is not told');
});

t.test('what is damaged is not understood', async (t) => {
  const whole = program(LOGICAL, ['read', 'setvirusname']).toString('latin1');
  t.equal(readProgram(Buffer.from('')), null);
  t.equal(readProgram(Buffer.from(whole.slice(1))), null);
  t.equal(readProgram(Buffer.from(whole.replace('|', '/'))), null);
  t.equal(readProgram(Buffer.from(whole.slice(0, whole.indexOf('\nE') + 12))), null);
});
