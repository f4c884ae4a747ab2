// Names that would move the cursor, start a line or pass for another name.
import t from 'tap';
import { counted, escapePath, escapeText, safeJson } from '../../src/cli/output.js';

t.test('one thing is not several', async (t) => {
  t.strictSame(
    [0, 1, 2].map((count) => counted(count, 'scan')),
    ['0 scans', '1 scan', '2 scans'],
  );
});

t.test('ordinary names stay as they are', async (t) => {
  for (const name of ['a.txt', 'Übung 1.pdf', '報告.docx', "it's", '🙂']) {
    t.equal(escapePath(Buffer.from(name)), name);
    t.equal(safeJson(name), JSON.stringify(name));
  }
});

t.test('what a terminal would act on is shown as what it is', async (t) => {
  t.equal(escapeText('a\nb: CLEAN'), 'a\\nb: CLEAN');
  t.equal(escapeText('\r\t\x1b[2J\x07\x7f\x9b'), '\\r\\t\\x1b[2J\\x07\\x7f\\x9b');
  t.equal(escapeText('exe.\u202efdp'), 'exe.\\u{202e}fdp');
  t.equal(escapeText('a\u2028b\u{e0041}'), 'a\\u{2028}b\\u{e0041}');
});

t.test('a backslash is doubled, so that no name passes for an escaped one', async (t) => {
  t.equal(escapeText('a\\nb'), 'a\\\\nb');
});

t.test('bytes that are not UTF-8 are shown one by one', async (t) => {
  t.equal(escapePath(Buffer.from([0x61, 0xff, 0xc3, 0x0a])), 'a\\xff\\xc3\\n');
});

t.test('JSON is ASCII where a terminal would act, and reads back the same', async (t) => {
  const hostile = 'a\n\x1b\x7f\x9b\u202e\u2028\u{e0041}\\"\ud800';
  const text = safeJson(hostile);
  t.notMatch(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  t.equal(JSON.parse(text), hostile);
});
