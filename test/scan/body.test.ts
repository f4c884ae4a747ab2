// The bounded buffer of an upload: its limit, to the byte, and the digest of what was written.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { Failure } from '../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../src/limits.js';
import { createBody } from '../../src/scan/body.js';
import { leaseOf } from '../fixtures/lease.js';

const block = new Uint8Array(new SharedArrayBuffer(CONTENT_LIMIT_BYTES));

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

t.test('10,485,760 bytes pass, in one piece and in two', async (t) => {
  const content = Buffer.alloc(10_485_760, 'ab');
  for (const cut of [0, 1, content.length - 1]) {
    const body = createBody(leaseOf(block));
    body.append(content.subarray(0, cut));
    body.append(content.subarray(cut));
    const { bytes, ...about } = body.finish();
    t.strictSame(about, { sizeBytes: content.length, sha256: sha256(content) });
    t.ok(content.equals(bytes.subarray(0, content.length)));
  }
});

t.test('one byte more is refused where it stands', async (t) => {
  const tooLarge = new Failure('fileTooLarge');
  t.throws(() => createBody(leaseOf(block)).append(Buffer.alloc(10_485_761)), tooLarge);
  const full = createBody(leaseOf(block));
  full.append(Buffer.alloc(10_485_760));
  full.append(Buffer.alloc(0));
  t.throws(() => full.append(Buffer.alloc(1)), tooLarge);
  const nearly = createBody(leaseOf(block));
  nearly.append(Buffer.alloc(10_485_759));
  t.throws(() => nearly.append(Buffer.alloc(2)), tooLarge);
});

t.test('no bytes are a failure', async (t) => {
  t.throws(() => createBody(leaseOf(block)).finish(), new Failure('fileEmpty'));
  const body = createBody(leaseOf(block));
  body.append(Buffer.alloc(0));
  t.throws(() => body.finish(), new Failure('fileEmpty'));
});

t.test('the pieces are copied one behind the other', async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 50 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(pieces, (sent) => {
      const whole = Buffer.concat(sent);
      const body = createBody(leaseOf(block));
      for (const piece of sent) {
        const lent = Uint8Array.from(piece);
        body.append(lent);
        lent.fill(0xaa);
      }
      if (whole.length === 0) return true;
      const content = body.finish();
      return content.sha256 === sha256(whole) && whole.equals(content.bytes.subarray(0, content.sizeBytes));
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
      const body = createBody(leaseOf(block));
      const ends = [...cuts.map((at) => Math.min(at, sizeBytes)), sizeBytes].sort((a, b) => a - b);
      for (const [index, end] of ends.entries()) {
        const lent = whole.slice(ends[index - 1] ?? 0, end);
        body.append(lent);
        lent.fill(0xaa);
      }
      return body.finish().sha256 === sha256(whole);
    }),
    { numRuns: 300 },
  );
  for (const sizeBytes of [65_536, 65_537]) {
    for (const chunkBytes of [1, 4_096, 16_384, 65_535, 65_536, 65_537]) {
      const whole = Buffer.alloc(sizeBytes, 'abcdefg');
      const body = createBody(leaseOf(block));
      for (let at = 0; at < sizeBytes; at += chunkBytes) body.append(whole.subarray(at, at + chunkBytes));
      t.equal(body.finish().sha256, sha256(whole), `${sizeBytes} bytes in chunks of ${chunkBytes}`);
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
      let own = new Uint8Array(new SharedArrayBuffer(0));
      let wanted = 0;
      let used = 0;
      let waits = false;
      const give = (): void => {
        const larger = new Uint8Array(new SharedArrayBuffer(wanted));
        larger.set(own.subarray(0, used));
        own = larger;
      };
      const body = createBody({
        block: () => own,
        grow(bytes, usedBytes) {
          wanted = bytes;
          used = usedBytes;
          if (!waits) give();
          return !waits;
        },
        seal: () => undefined,
      });
      const whole = Buffer.concat(sent.map(({ bytes }, index) => Buffer.alloc(bytes, `${index} `)));
      let at = 0;
      for (const [index, piece] of sent.entries()) {
        waits = piece.waits || body.isWaiting();
        const lent = Buffer.from(whole.subarray(at, at + piece.bytes));
        at += piece.bytes;
        body.append(lent);
        lent.fill(0xaa);
        if (!body.isWaiting() || (index % 2 === 0 && index < sent.length - 1)) continue;
        give();
        body.takeUp();
      }
      const { sizeBytes, sha256: digest, bytes: filled } = body.finish();
      return digest === sha256(whole) && whole.equals(filled.subarray(0, sizeBytes));
    }),
    { numRuns: 200 },
  );
});
