// One content: its limit, to the byte, and the digest of what was written.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { Failure } from '../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../src/limits.js';
import type { Content } from '../../src/scan/content.js';
import { contentIn } from '../fixtures/lender.js';

const block = new Uint8Array(new SharedArrayBuffer(CONTENT_LIMIT_BYTES));

/** The bytes of a content that ends now. */
function ended(body: Content): Uint8Array {
  body.finish();
  return body.block.subarray(0, body.sizeBytes);
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

t.test('10,485,760 bytes pass, in one piece and in two', async (t) => {
  const content = Buffer.alloc(10_485_760, 'ab');
  for (const cut of [0, 1, content.length - 1]) {
    const body = contentIn(block);
    body.append(content.subarray(0, cut));
    body.append(content.subarray(cut));
    t.ok(content.equals(ended(body)));
    t.equal(body.sha256, sha256(content));
  }
});

t.test('one byte more is refused where it stands', async (t) => {
  const tooLarge = new Failure('fileTooLarge');
  t.throws(() => contentIn(block).append(Buffer.alloc(10_485_761)), tooLarge);
  const full = contentIn(block);
  full.append(Buffer.alloc(10_485_760));
  full.append(Buffer.alloc(0));
  t.throws(() => full.append(Buffer.alloc(1)), tooLarge);
  const nearly = contentIn(block);
  nearly.append(Buffer.alloc(10_485_759));
  t.throws(() => nearly.append(Buffer.alloc(2)), tooLarge);
});

t.test('no bytes are a failure', async (t) => {
  t.throws(() => contentIn(block).finish(), new Failure('fileEmpty'));
  const body = contentIn(block);
  body.append(Buffer.alloc(0));
  t.throws(() => body.finish(), new Failure('fileEmpty'));
});

t.test('the pieces are copied one behind the other', async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 50 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(pieces, (sent) => {
      const whole = Buffer.concat(sent);
      const body = contentIn(block);
      for (const piece of sent) {
        const lent = Uint8Array.from(piece);
        body.append(lent);
        lent.fill(0xaa);
      }
      if (whole.length === 0) return true;
      return whole.equals(ended(body)) && body.sha256 === sha256(whole);
    }),
  );
});

/** Content up to this size is hashed in one step, larger content on the way. */
const HASHED_AT_ONCE_BYTES = 65_536;

t.test('the digest is that of the content on both sides of the size from which it is hashed on the way', async (t) => {
  const around = fc.integer({ min: HASHED_AT_ONCE_BYTES - 2, max: HASHED_AT_ONCE_BYTES + 2 });
  const larger = fc.integer({ min: HASHED_AT_ONCE_BYTES, max: 4 * HASHED_AT_ONCE_BYTES });
  const cut = fc.oneof(around, fc.nat(4 * HASHED_AT_ONCE_BYTES), fc.constantFrom(0, 1));
  const content = fc.record({
    sizeBytes: fc.oneof(fc.constantFrom(65_536, 65_537), around, larger),
    cuts: fc.array(cut, { maxLength: 6 }),
    seed: fc.nat(255),
  });
  fc.assert(
    fc.property(content, ({ sizeBytes, cuts, seed }) => {
      const whole = Uint8Array.from({ length: sizeBytes }, (_, index) => (index * 31 + (index >> 8) + seed) & 0xff);
      const body = contentIn(block);
      const ends = [...cuts.map((at) => Math.min(at, sizeBytes)), sizeBytes].sort((a, b) => a - b);
      for (const [index, end] of ends.entries()) {
        const lent = whole.slice(ends[index - 1] ?? 0, end);
        body.append(lent);
        lent.fill(0xaa);
      }
      body.finish();
      return body.sha256 === sha256(whole);
    }),
    { numRuns: 300 },
  );
  for (const sizeBytes of [65_536, 65_537]) {
    for (const chunkBytes of [1, 4_096, 16_384, 65_535, 65_536, 65_537]) {
      const whole = Buffer.alloc(sizeBytes, 'abcdefg');
      const body = contentIn(block);
      for (let at = 0; at < sizeBytes; at += chunkBytes) body.append(whole.subarray(at, at + chunkBytes));
      body.finish();
      t.equal(body.sha256, sha256(whole), `${sizeBytes} bytes in chunks of ${chunkBytes}`);
    }
  }
});

t.test('content that outgrows its buffer is whole, whether there was memory at once or only after a wait', async () => {
  const pieces = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 40_000 }), waits: fc.boolean() }), {
    minLength: 1,
    maxLength: 20,
  });
  fc.assert(
    fc.property(pieces, (sent) => {
      let waits = false;
      let wanted = 0;
      const give = (content: Content): void => {
        const larger = new Uint8Array(new SharedArrayBuffer(wanted));
        larger.set(content.block.subarray(0, content.sizeBytes));
        content.block = larger;
      };
      const body = contentIn({
        largestBytes: CONTENT_LIMIT_BYTES,
        grow(content, bytes) {
          wanted = bytes;
          if (!waits) give(content);
          return !waits;
        },
        seal: () => undefined,
        release: () => undefined,
      });
      const whole = Buffer.concat(sent.map(({ bytes }, index) => Buffer.alloc(bytes, `${index} `)));
      let at = 0;
      for (const [index, piece] of sent.entries()) {
        waits = piece.waits || body.isWaiting;
        const lent = Buffer.from(whole.subarray(at, at + piece.bytes));
        at += piece.bytes;
        body.append(lent);
        lent.fill(0xaa);
        if (!body.isWaiting || (index % 2 === 0 && index < sent.length - 1)) continue;
        give(body);
        body.takeUp();
      }
      return whole.equals(ended(body)) && body.sha256 === sha256(whole);
    }),
    { numRuns: 200 },
  );
});
