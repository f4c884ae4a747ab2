// The parser: whatever the split of the bytes, it hears the same commands and the same contents.
import t from 'tap';
import { CLAMD_COMMAND_BYTES, PARSED_AT_ONCE } from '../../src/limits.js';
import { wholeNumbers } from '../fixtures/random.js';
import { heard, listen } from './heard.js';

function chunk(bytes: Buffer): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(bytes.length);
  return Buffer.concat([size, bytes]);
}

function randomSession(random: (below: number) => number): Buffer {
  const parts: Buffer[] = [];
  for (let left = 1 + random(6); left > 0; left -= 1) {
    const framing = random(2) === 0 ? (['n', '\n'] as const) : (['z', '\0'] as const);
    const words = ['PING', 'INSTREAM', 'SCAN /a b', 'VERSION', 'NO\x80SUCH', '', 'END', 'INSTREAM', 'FILDES'];
    const word = words[random(words.length)] ?? '';
    parts.push(Buffer.from(framing[0] + word + framing[1], 'latin1'));
    if (word !== 'INSTREAM') continue;
    for (let chunks = random(4); chunks > 0; chunks -= 1) {
      parts.push(chunk(Buffer.from(Array.from({ length: 1 + random(40) }, () => random(256)))));
    }
    parts.push(Buffer.alloc(4));
  }
  const whole = Buffer.concat(parts);
  return random(4) === 0 ? whole.subarray(0, random(whole.length)) : whole;
}

t.test('any split of a session says the same, whole or cut', async (t) => {
  const random = wholeNumbers(33);
  for (let round = 0; round < 2_000; round += 1) {
    const session = randomSession(random);
    const whole = heard([session]);
    const parts: Buffer[] = [];
    for (let at = 0; at < session.length; ) {
      const end = at + 1 + random(9);
      parts.push(session.subarray(at, end));
      at = end;
    }
    if (JSON.stringify(heard(parts)) !== JSON.stringify(whole)) t.fail(session.toString('hex'));
  }
});

t.test('a command that is longer than any may be is heard of once, and nothing after it', async (t) => {
  const long = Buffer.from(`n${'A'.repeat(CLAMD_COMMAND_BYTES + 1)}\nnPING\n`);
  t.strictSame(heard([long]), ['too long']);
  t.strictSame(heard([...long].map((byte) => Buffer.from([byte]))), ['too long']);
});

t.test('the longest path that Linux has fits', async (t) => {
  const path = `/${'a'.repeat(4_094)}`;
  t.match(heard([Buffer.from(`zALLMATCHSCAN ${path}\0`)])[0], path);
});

t.test(
  'ALLMATCHSCAN begins with n or z, as the commands of sessions do: without them clamd does not know it',
  async (t) => {
    for (const word of ['ALLMATCHSCAN /a', 'VERSIONCOMMANDS']) {
      t.match(heard([Buffer.from(`${word}\n`)])[0], /unknown/, word);
      t.notMatch(heard([Buffer.from(`n${word}\n`)])[0], /unknown/, word);
    }
    for (const word of ['SCAN /a', 'CONTSCAN /a', 'MULTISCAN /a']) {
      t.match(heard([Buffer.from(`${word}\n`)])[0], /path/, word);
    }
  },
);

t.test('bytes that are no commands end in unknown ones, never in an exception', async (t) => {
  let lines = 0;
  const random = wholeNumbers(7);
  for (let round = 0; round < 2_000; round += 1) {
    lines += heard([Buffer.from(Array.from({ length: random(60) }, () => random(256)))]).length;
  }
  t.ok(lines > 1_000);
});

t.test('of what comes at once only so much is taken: a command, or some chunks', async (t) => {
  const { parser } = listen();
  t.equal(parser.write(Buffer.from('zPING\0zPING\0')), 6);
  parser.isHeld = false;
  t.equal(parser.write(Buffer.from('zINSTREAM\0')), 10);
  parser.isHeld = false;
  const taken = parser.write(Buffer.concat(Array.from({ length: 1_000 }, () => chunk(Buffer.from('a')))));
  t.ok(taken >= PARSED_AT_ONCE && taken <= 5 * PARSED_AT_ONCE, `${taken} bytes`);
});
