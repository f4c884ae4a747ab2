// Bytecode programs as ClamAV writes them: what is read of their text.
import t from 'tap';
import { readProgram } from '../../../../src/engine/clamav/gates/program.js';
import { bytecodeProgram } from '../../../fixtures/bytecode.js';

const [LOGICAL, UNPACKER] = [256, 257];
const TRIGGER = 'BC.Test.Program-1.{A,B};Engine:56-255,Target:1;0;6d61726b';

const program = (kind: number, calls: readonly string[], second = TRIGGER): Buffer =>
  bytecodeProgram(kind, calls, second);

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
