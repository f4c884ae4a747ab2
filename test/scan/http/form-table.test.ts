// The table of multipart bodies: each read whole, byte by byte and at random splits, with the same result.
import t from 'tap';
import { byteByByte, readForm, splitAt } from './form-reader.js';
import { formCases } from './form-table.js';

/** Longer bodies are not read byte by byte: it would take longer than all the others. */
const BYTE_BY_BYTE_MAX = 10_000;
const FORM = 'multipart/form-data; boundary=----Boundary';

for (const [name, text, expected, contentType = FORM] of formCases) {
  t.test(name, async (t) => {
    const body = Buffer.from(text, 'latin1');
    t.strictSame(readForm(contentType, [body]), expected);
    if (body.length < BYTE_BY_BYTE_MAX) t.strictSame(readForm(contentType, byteByByte(body)), expected, 'byte by byte');
    for (const seed of [3, 17, 91, 1009]) {
      const places = Array.from({ length: 8 }, (_, index) => (seed * (index + 1) * 7919) % (body.length + 1));
      t.strictSame(readForm(contentType, splitAt(body, places)), expected, `split with seed ${seed}`);
    }
  });
}
