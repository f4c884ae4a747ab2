// Rows as they are written for the journal and for the copy, each its own whatever came before it; rows.test.ts reads them back from the database.
import t from 'tap';
import { RowCopy } from '../../src/history/rows-to-database.js';
import { decodeRow, type ScanRow, storableRow } from '../../src/history/scan-row.js';
import { BOB, encodeRow, rowAt } from '../fixtures/history.js';

const MIDNIGHT = Date.parse('2026-11-21T00:00:00Z');

t.test('a row of the journal is the JSON of its fields, whatever is in its texts', async (t) => {
  t.strictSame(decodeRow(encodeRow(rowAt(MIDNIGHT, { wasPending: true })))?.wasPending, true);
  const texts = ['', '"', '\\', 'a\u0000b', '\u001f', '\u007f', 'é', '\ud83d\ude00', '\ud800', '/a\tb'];
  for (const filename of texts) {
    const row = storableRow(rowAt(MIDNIGHT, { filename, metadata: filename, notices: ['encrypted'], keyId: BOB }));
    t.strictSame(JSON.parse(encodeRow(row)), JSON.parse(JSON.stringify(row)));
    t.strictSame(JSON.stringify(decodeRow(encodeRow(row))), JSON.stringify(row));
  }
});

/** Each differs from the one before it in one field, and the last one is the first one again. */
const rowsInTurn: readonly ScanRow[] = (
  [
    {},
    { keyId: BOB },
    { userId: BOB },
    { virusName: 'Eicar' },
    { env: 'TEST' },
    { status: 422, error: 'Scan incomplete: a limit' },
    { engine: 'yara-x/1.7.1' },
    { signatures: null },
    { metadata: 'é' },
    { url: 'https://example.org/' },
    { protocol: 'icap' },
    { detectedType: null },
    { detectedType: 'CL_TYPE_ZIP' },
    { filename: '\ud83d\ude00' },
    { sha256: null },
    { sizeBytes: null },
    { notices: ['encrypted'] },
  ] satisfies Partial<ScanRow>[]
).flatMap((differences) => [
  rowAt(MIDNIGHT),
  rowAt(MIDNIGHT + 1, differences),
  rowAt(MIDNIGHT + 2, differences),
  rowAt(MIDNIGHT),
]);

t.test('a row is copied as it would be alone, whatever came before it', async (t) => {
  const [headBytes, endBytes] = [19, 2];
  const alone = rowsInTurn.map((row) => Buffer.from(new RowCopy([row]).bytes()).subarray(headBytes, -endBytes));
  const together = Buffer.from(new RowCopy(rowsInTurn).bytes()).subarray(headBytes, -endBytes);
  t.ok(together.equals(Buffer.concat(alone)));
});

t.test('a row of the journal is its own, whatever came before it', async (t) => {
  for (const row of rowsInTurn) t.strictSame(JSON.parse(encodeRow(row)), JSON.parse(JSON.stringify(row)));
});
