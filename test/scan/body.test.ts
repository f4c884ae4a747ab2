// The bounded buffer of an upload: its limit, to the byte, and the digest of what was written.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { Failure } from '../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../src/limits.js';
import { createBody } from '../../src/scan/body.js';

const buffer = new ArrayBuffer(CONTENT_LIMIT_BYTES);

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

t.test('10,485,760 bytes pass, in one piece and in two', async (t) => {
  const content = Buffer.alloc(10_485_760, 'ab');
  for (const cut of [0, 1, content.length - 1]) {
    const body = createBody(buffer);
    body.append(content.subarray(0, cut));
    body.append(content.subarray(cut));
    t.strictSame(body.finish(), { buffer, sizeBytes: content.length, sha256: sha256(content) });
  }
});

t.test('one byte more is refused where it stands', async (t) => {
  const tooLarge = new Failure('fileTooLarge');
  t.throws(() => createBody(buffer).append(Buffer.alloc(10_485_761)), tooLarge);
  const full = createBody(buffer);
  full.append(Buffer.alloc(10_485_760));
  full.append(Buffer.alloc(0));
  t.throws(() => full.append(Buffer.alloc(1)), tooLarge);
  const nearly = createBody(buffer);
  nearly.append(Buffer.alloc(10_485_759));
  t.throws(() => nearly.append(Buffer.alloc(2)), tooLarge);
});

t.test('no bytes are a failure', async (t) => {
  t.throws(() => createBody(buffer).finish(), new Failure('fileEmpty'));
  const body = createBody(buffer);
  body.append(Buffer.alloc(0));
  t.throws(() => body.finish(), new Failure('fileEmpty'));
});

t.test('the pieces are copied one behind the other', async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 50 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(pieces, (sent) => {
      const whole = Buffer.concat(sent);
      const body = createBody(buffer);
      for (const piece of sent) {
        const lent = Uint8Array.from(piece);
        body.append(lent);
        lent.fill(0xaa);
      }
      if (whole.length === 0) return true;
      const content = body.finish();
      return content.sha256 === sha256(whole) && whole.equals(Buffer.from(content.buffer, 0, content.sizeBytes));
    }),
  );
});
