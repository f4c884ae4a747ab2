// Uploads that are forms, by REQMOD: each file in them is looked at by itself, however the bytes are cut, and has its row.
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { ask, bearer, PASSWORD, signIn } from '../fixtures/sign-in.js';
import { type Asked, CLEAN, connect, EICAR, EMAIL, startOurs } from './client.js';

interface Part {
  readonly name: string;
  readonly filename?: string;
  readonly content: Buffer | string;
  readonly type?: string;
}

/** Found only where it is a content of its own. */
const PACKED = gzipSync(EICAR);
const FIELD: Part = { name: 'comment', content: 'some text' };

const TYPE = 'Content-Type: multipart/form-data; boundary=B';

function formOf(parts: readonly Part[], end = '\r\n--B--\r\n'): Asked {
  const pieces = parts.map(({ name, filename, content, type }, index) => {
    const named = filename === undefined ? '' : `; filename="${filename}"`;
    const head = `${index === 0 ? '' : '\r\n'}--B\r\nContent-Disposition: form-data; name="${name}"${named}${type === undefined ? '' : `\r\nContent-Type: ${type}`}\r\n\r\n`;
    return Buffer.concat([Buffer.from(head), Buffer.from(content)]);
  });
  const body = Buffer.concat([...pieces, Buffer.from(end)]);
  const http = `POST http://example.org/upload HTTP/1.1\r\nHost: example.org\r\n${TYPE}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return { method: 'REQMOD', http, body };
}

const ALLOW = { headers: ['Allow: 204'] };
const clean: Part = { name: 'file', filename: 'clean.txt', content: CLEAN };
const infected: Part = { name: 'other', filename: 'C:\\papers\\report.gz', content: PACKED };
const empty: Part = { name: 'third', filename: '', content: '' };

// One server for all whose settings go together.
const { server, port } = await startOurs(
  { ICAP_INCOMPLETE: 'block', UPLOAD_MEMORY_MB: '64', STREAM_MAX_MB: '16' },
  { t },
);

t.test('the verdict is that of all files of a form, and each has its row', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const me = bearer((await signIn(server.url, EMAIL, PASSWORD)).accessToken);
  const rows = async (): Promise<unknown> =>
    (await ask(`${server.url}/web/scans/stats?sort=creationDate,asc`, { headers: me })).body;

  const one = formOf([FIELD, clean, empty]);
  const passed = await client.ask({ ...one, ...ALLOW });
  t.equal(passed.status, 204);
  t.equal(passed.headers.get('x-sluice-notice'), 'fields', 'what was not looked at by itself');
  t.match(await rows(), { totalElements: 1, content: [{ filename: 'clean.txt' }] });
  const onlyFiles = formOf([clean, empty]);
  t.equal((await client.ask({ ...onlyFiles, ...ALLOW })).headers.get('x-sluice-notice'), undefined);
  const two = formOf([clean, FIELD, infected]);
  const { headers } = await client.ask({ ...two, ...ALLOW });
  t.match(headers.get('x-violations-found'), 'report.gz');
  t.match(await rows(), { totalElements: 4 });
  const fields = formOf([FIELD, { ...FIELD, name: 'more' }]);
  t.equal((await client.ask({ ...fields, ...ALLOW })).status, 204);
  t.match(await rows(), { totalElements: 5 }, 'without a file it is looked at as it is');

  for (const piece of [Number.MAX_SAFE_INTEGER, 7, 1]) {
    for (const preview of [null, 0, 100, 4096]) {
      for (const allow of [{}, ALLOW]) {
        const name = `pieces of ${piece}, preview ${preview}, ${'headers' in allow ? '204' : 'sent back'}`;
        const passed = await client.ask({ ...one, preview, ...allow }, piece);
        t.ok(passed.status === 204 || passed.body?.equals(one.body ?? Buffer.alloc(0)), name);
        for (const parts of [[infected], [clean, infected], [infected, clean, FIELD]]) {
          const blocked = await client.ask({ ...formOf(parts), preview, ...allow }, piece);
          t.match(blocked.http, /^HTTP\/1\.1 403/, name);
          t.match(blocked.headers.get('x-virus-id'), 'Sluice.Test.EICAR', name);
          t.match(blocked.body?.toString(), 'File: report.gz', name);
        }
      }
    }
  }
  // Its header has a long name: the packed bytes begin behind it.
  const long = Buffer.concat([PACKED.subarray(0, 10), Buffer.from(`${'x'.repeat(9_000)}\0`), PACKED.subarray(10)]);
  long[3] = 8;
  const asField = await client.ask({ ...formOf([clean, { name: 'text', content: long }]), ...ALLOW });
  t.match(asField.http, /^HTTP\/1\.1 403/, 'what is longer than a field is a file, whatever it calls itself');
  const nameless = await client.ask({ method: 'REQMOD', http: null, body: PACKED, ...ALLOW });
  t.match(nameless.body?.toString(), 'File: without a name');
});

t.test('what many readers take for a file is one, however its type is written, and without a filename', async (t) => {
  const client = await connect(port);
  t.teardown(client.end);
  const form = formOf([infected]);
  for (const type of [
    'Content-Type : multipart/form-data; boundary=B',
    'Content-Type:\r\n\tmultipart/form-data; boundary=B',
    'Content-Type: multipart/form-data;\n boundary="B"',
    'X: a\nContent-Type: Multipart/Form-Data; boundary=B',
    'Content-Type: multipart/mixed; boundary=B',
  ]) {
    const answer = await client.ask({ ...form, http: form.http?.replace(TYPE, type) ?? '', ...ALLOW });
    t.match(answer.headers.get('x-violations-found'), 'report.gz', JSON.stringify(type));
  }
  for (const type of ['application/octet-stream', 'text/html', 'text/plainer']) {
    const answer = await client.ask({ ...formOf([clean, { ...FIELD, content: PACKED, type }]), ...ALLOW });
    t.match(answer.headers.get('x-violations-found'), 'comment', type);
  }
  const related = Buffer.concat([
    Buffer.from('--B\r\nContent-Type: a/b\r\n\r\n'),
    PACKED,
    Buffer.from('\r\n--B--\r\n'),
  ]);
  const http = 'POST / HTTP/1.1\r\nContent-Type: multipart/related; boundary=B\r\n\r\n';
  const answer = await client.ask({ method: 'REQMOD', http, body: related, ...ALLOW });
  t.match(answer.headers.get('x-virus-id'), 'EICAR', 'a part without a name');
});

t.test('a form that can be read in two ways, or not at all, could not be looked at', async (t) => {
  const broken = [formOf([clean], '\r\n--B'), formOf([clean], '\r\n--Bx\r\n'), formOf([clean], '\r\n--B--\r\nmore')];
  const many = formOf(Array.from({ length: 101 }, () => clean));
  const { http = '' } = many;
  const without = { ...formOf([clean]), http: http?.replace('; boundary=B', '') ?? '' };
  const typed = (lines: string): Asked => ({ ...formOf([infected]), http: http?.replace(TYPE, lines) ?? '' });
  const ambiguous = [
    typed(`Content-Type: text/plain\r\n${TYPE}`),
    typed(`${TYPE}\r\nContent-Type: text/plain`),
    typed('Content-Type: text/plain, multipart/form-data; boundary=B'),
    typed(`${TYPE}\r\nContent-Encoding: gzip`),
    typed('Content-Type: multipart/mixed'),
  ];
  const passing = await startOurs({ ICAP_INCOMPLETE: 'pass' }, { t });
  for (const [policy, at] of [
    ['block', port],
    ['pass', passing.port],
  ] as const) {
    const client = await connect(at);
    for (const asked of [...broken, many, without, ...ambiguous]) {
      const { body } = asked;
      const http = asked.http?.replace(/Content-Length: \d+/, `Content-Length: ${body?.length}`) ?? null;
      for (const allow of [{}, ALLOW]) {
        const answer = await client.ask({ ...asked, http, ...allow });
        t.match(answer.headers.get('x-sluice-notice'), /malformed form: /);
        if (policy === 'block') t.match(answer.http, /^HTTP\/1\.1 403/);
        else t.ok(answer.status === 204 || answer.body?.equals(body ?? Buffer.alloc(0)), 'it passes as it was');
      }
    }
    client.end();
  }
});

t.test('each file takes a unit; what is over the quota does not pass', async (t) => {
  const { server, port } = await startOurs({ PLANS: 'FREE:2,BUSINESS:2' }, { t });
  await enoughOfTheHour();
  const client = await connect(port);
  t.teardown(client.end);
  const three = formOf([clean, { ...clean, content: 'another' }, { ...clean, content: 'a third' }]);
  const { status, headers } = await client.ask({ ...three, ...ALLOW });
  t.equal(status, 503);
  t.match(headers.get('x-sluice-notice'), 'Hourly scan limit reached');
  const refused = () => server.metric('sluice_admissions_refused_total{protocol="icap",failure="quotaExhausted"}');
  t.equal(await refused(), 1);
  t.equal((await client.ask({ ...three, ...ALLOW })).status, 503);
  t.ok((await refused()) > 1, 'each counts');
});

t.test('the memory of forms comes back, also where the client leaves', async (t) => {
  const megabytes = (seed: number): Part => ({ ...clean, content: Buffer.alloc(5 * 1024 * 1024, `clean ${seed}\n`) });
  for (let round = 0; round < 10; round += 1) {
    const client = await connect(port);
    const form = formOf([megabytes(2 * round), megabytes(2 * round + 1)]);
    if (round % 3 === 0) void client.ask(form).catch(() => undefined);
    else {
      const answer = await client.ask(form, 1_000_000);
      t.ok(answer.body?.equals(form.body ?? Buffer.alloc(0)), `round ${round}`);
    }
    client.end();
  }
});
