// Records in a file, as properties: a cut loses what it cuts and nothing else, damage loses what it damages, nothing is invented.
import fc from 'fast-check';
import t from 'tap';
import { PAYLOAD_MAX_BYTES, readFrames } from '../../src/history/segment.js';
import { anyCharacter } from '../fixtures/any-character.js';
import { frame } from '../fixtures/history.js';

/** JSON, as all payloads are: of any characters, and with what looks like other records in it. */
const payloads = fc.array(
  fc
    .oneof(fc.string({ unit: anyCharacter, maxLength: 200 }), fc.string({ unit: 'grapheme', maxLength: 200 }))
    .map((text) => JSON.stringify(text)),
  { maxLength: 12 },
);

function readAll(buffer: Buffer, count: number): { payloads: string[]; damagedBytes: number; tornBytes: number } {
  const read = { payloads: [] as string[], damagedBytes: 0, tornBytes: 0 };
  for (let at = 0; at < buffer.length; ) {
    const frames = readFrames(buffer.subarray(at), count, { isEnd: true });
    read.payloads.push(...frames.payloads);
    read.damagedBytes += frames.damagedBytes;
    read.tornBytes += frames.tornBytes;
    at += frames.nextBytes;
  }
  return read;
}

t.test('what was written is read, whatever the number of records read at a time', async (t) => {
  fc.assert(
    fc.property(payloads, fc.integer({ min: 1, max: 5 }), (sent, count) => {
      t.strictSame(readAll(Buffer.concat(sent.map(frame)), count), { payloads: sent, damagedBytes: 0, tornBytes: 0 });
    }),
  );
});

t.test('a file cut at any byte gives every whole record and no other', async (t) => {
  fc.assert(
    fc.property(payloads, fc.nat(), (sent, seed) => {
      const frames = sent.map(frame);
      const whole = Buffer.concat(frames);
      const cut = seed % (whole.length + 1);
      let end = 0;
      const kept = sent.filter((_, index) => {
        end += frames[index]?.length ?? 0;
        return end <= cut;
      });
      const keptBytes = Buffer.concat(kept.map(frame)).length;
      t.strictSame(readAll(whole.subarray(0, cut), 3), {
        payloads: kept,
        damagedBytes: 0,
        tornBytes: cut - keptBytes,
      });
    }),
  );
});

t.test('a damaged byte costs the record that it is in', async (t) => {
  fc.assert(
    fc.property(payloads, fc.nat(), fc.integer({ min: 1, max: 255 }), (sent, seed, flip) => {
      fc.pre(sent.length > 0);
      const frames = sent.map(frame);
      const whole = Buffer.concat(frames);
      const at = seed % whole.length;
      whole[at] = (whole[at] ?? 0) ^ flip;
      let end = 0;
      const kept = sent.filter((_, index) => {
        const start = end;
        end += frames[index]?.length ?? 0;
        return at < start || at >= end;
      });
      t.strictSame(readAll(whole, 100).payloads, kept);
    }),
  );
});

t.test('a file that ends in zeros, as a power cut leaves them, is read up to them, and that is damage', async (t) => {
  const file = Buffer.concat([frame('"one"'), frame('"two"'), Buffer.alloc(5000)]);
  t.strictSame(readAll(file, 100), { payloads: ['"one"', '"two"'], damagedBytes: 5000, tornBytes: 0 });
});

t.test('a record that the buffer cuts is left for the next call', async (t) => {
  const file = Buffer.concat([frame('"one"'), frame('"two"')]);
  const { payloads: read, nextBytes } = readFrames(file.subarray(0, file.length - 1), 100, { isEnd: false });
  t.strictSame(read, ['"one"']);
  t.equal(nextBytes, frame('"one"').length);
});

t.test('empty and oversized payloads are refused', async (t) => {
  t.throws(() => frame(''), RangeError);
  t.throws(() => frame('x'.repeat(PAYLOAD_MAX_BYTES + 1)), RangeError);
});
