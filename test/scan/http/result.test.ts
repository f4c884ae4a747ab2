// The wire shape of a scan result: the six fields of the interface, in their order.
import t from 'tap';
import { withExtension } from '../../../src/filename.js';
import { resultJson, ScanResult } from '../../../src/scan/http/operation.js';

t.test('an infected upload', async (t) => {
  const json = resultJson({ ...withExtension('a.tar.GZ'), wholeBytes: 68, durationMs: 1.5, virusName: 'A.B' });
  t.equal(
    json,
    '{"filename":"a.tar.GZ","extension":"GZ","sizeInBytes":68,"scanDurationMillis":2,"infected":true,"virusName":"A.B"}',
  );
});

t.test('a clean upload without an extension', async (t) => {
  const json = resultJson({ ...withExtension('.htaccess'), wholeBytes: 1, durationMs: 0.4, virusName: null });
  t.equal(
    json,
    '{"filename":".htaccess","extension":"","sizeInBytes":1,"scanDurationMillis":0,"infected":false,"virusName":null}',
  );
});

t.test('a filename of quotes, line separators and half characters is still JSON', async (t) => {
  for (const filename of ['a"b\\.txt', 'a\u2028b.txt', 'a\ud800.txt', '__proto__']) {
    const json = resultJson({ ...withExtension(filename), wholeBytes: 1, durationMs: 0, virusName: null });
    t.equal(JSON.parse(json).filename, filename);
    t.ok(Buffer.from(json).equals(Buffer.from(JSON.stringify(JSON.parse(json)))));
  }
});

t.test('the schema names the fields of the result', async (t) => {
  const result = JSON.parse(
    resultJson({ filename: 'a', extension: '', wholeBytes: 1, durationMs: 0, virusName: null }),
  );
  t.strictSame(Object.keys(ScanResult.shape), Object.keys(result));
  t.strictSame(ScanResult.parse(result), result);
});
