// The policy of one request: what is encrypted, and what the engine merely suspects; by every way to say it, whatever was scanned before by another one.
import { zip } from '../fixtures/archives.js';
import { onNodes } from '../fixtures/nodes.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, type TestServer } from '../fixtures/server.js';
import { ask } from '../fixtures/sign-in.js';
import { inOnePiece } from '../fixtures/upload.js';

/** libclamav suspects a PDF in which the name of a filter is written in hexadecimal. */
function suspect(text: string): Buffer {
  const object = `1 0 obj\n<< /Length ${text.length} /Fl#61te#44#65#63ode 1 /F#69lter /#46lateDecode /J#61vaScript (x) >>\nstream\n${text}\nendstream\nendobj\n`;
  return Buffer.from(`%PDF-1.4\n${object}trailer << /Root 1 0 R >>\n%%EOF\n`);
}

function sealed(text: string): Buffer {
  return zip([{ name: 'a.txt', content: Buffer.from(text), encrypted: true }]);
}

const rejected = { status: 422, body: { message: 'Scan incomplete: content is encrypted' } };
const suspected = { status: 200, body: { infected: true, virusName: /^Heuristics\.PDF\./ } };

onNodes({ env: { VERDICT_CACHE: 'shared' } }, async (t, { one, other }) => {
  const post = async (
    server: TestServer,
    headers: Record<string, string> | Headers,
    body: NonNullable<RequestInit['body']>,
    query = '',
  ) => {
    const all = new Headers(headers);
    all.set('X-API-KEY', API_KEY);
    const answer = await fetch(`${server.url}/api/v1/scans${query}`, { method: 'POST', headers: all, body });
    const text = await answer.text();
    return { status: answer.status, body: JSON.parse(text), notice: answer.headers.get('x-scan-notice') };
  };
  const raw = (content: Buffer, query = '', more: Record<string, string> = {}) =>
    post(other, { 'X-Filename': 'a', 'Content-Type': 'application/x-any', ...more }, new Uint8Array(content), query);
  const form = async (content: Buffer, fields: Record<string, string>, server = one) => {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.append(name, value);
    data.append('file', new Blob([new Uint8Array(content)]), 'a');
    for (const [name, value] of Object.entries(fields)) if (name === 'after') data.append('encrypted', value);
    const { body, headers } = await inOnePiece(data);
    return await post(server, headers, body);
  };

  t.test('an encrypted member is allowed or not, whatever was remembered of it', async (t) => {
    const [first, second] = [sealed('x'.repeat(50_000)), sealed('y'.repeat(50_000))];
    t.match(await form(first, {}), { status: 200, notice: 'encrypted' });
    for (const server of [one, other]) t.match(await form(first, { encrypted: 'reject' }, server), rejected);
    t.match(await form(first, { after: 'reject' }), rejected, 'the field behind the file');
    t.match(await raw(first, '?encrypted=reject'), rejected);
    t.match(await raw(second, '?encrypted=reject'), rejected);
    t.match(await raw(second, '?encrypted=allow'), { status: 200, notice: 'encrypted' });
    t.match(await raw(second), { status: 200, notice: 'encrypted' });
    t.match(await raw(Buffer.from('plain'), '?encrypted=reject'), { status: 200, notice: null });
  });

  t.test('what is suspected counts or not, whatever was remembered of it', async (t) => {
    const [first, second] = [suspect('x'.repeat(40_000)), suspect('y'.repeat(40_000))];
    t.match(await raw(first), suspected);
    t.match(await raw(first, '?heuristics=off'), { status: 200, body: { infected: false }, notice: 'suspected' });
    t.match(await form(second, { heuristics: 'off' }), { body: { infected: false }, notice: 'suspected' });
    for (const server of [one, other]) t.match(await form(second, { heuristics: 'on' }, server), suspected);
    t.match(await raw(eicar(), '?heuristics=off'), { body: { infected: true } }, 'a signature counts in any case');
  });

  t.test('another policy is another request for an Idempotency-Key', async (t) => {
    const once = { 'Idempotency-Key': 'a-policy' };
    const content = sealed('z');
    t.match(await raw(content, '?encrypted=reject', once), rejected);
    t.match(await raw(content, '?encrypted=reject', once), rejected);
    t.match(await raw(content, '', once), { status: 409 });
  });

  t.test('a scan without waiting is read by its policy as well', async (t) => {
    const content = new Uint8Array(sealed('later'));
    const headers = {
      'X-API-KEY': API_KEY,
      'X-Filename': 'a',
      'Content-Type': 'application/x-any',
      Prefer: 'respond-async',
    };
    const query = '?encrypted=reject';
    const accepted = await fetch(`${one.url}/api/v1/scans${query}`, { method: 'POST', headers, body: content });
    t.equal(accepted.status, 202);
    const place = `${one.url}${accepted.headers.get('location')}?wait=20`;
    t.match((await ask(place, { headers: { 'X-API-KEY': API_KEY } })).body, { state: 'failed', status: '422' });
  });

  t.test('what is no policy is refused by its name, by every way', async (t) => {
    const wrong = (message: string) => ({ status: 400, body: { error: 'Bad request', message } });
    const choice = wrong('encrypted: must be one of allow, reject');
    const json = { 'Content-Type': 'application/json' };
    const pairs = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const url = 'http://127.0.0.1/';
    t.match(await raw(Buffer.from('x'), '?encrypted=no'), choice);
    t.match(await form(Buffer.from('x'), { encrypted: '' }), choice);
    t.match(await form(Buffer.from('x'), { heuristics: 'OFF' }), wrong('heuristics: must be one of on, off'));
    t.match(await form(Buffer.from('x'), { encrypted: 'allow', after: 'allow' }), wrong('encrypted: given twice'));
    t.match(await post(one, json, JSON.stringify({ url, encrypted: 'no' })), choice);
    t.match(await post(one, json, JSON.stringify({ url, encrypt: 'allow' })), {
      status: 400,
      body: { message: /unknown: encrypt$/ },
    });
    t.match(await post(one, pairs, `url=${url}&encrypted=no`), choice);
    t.match(await post(one, pairs, `url=${url}&encrypted=allow`, '?encrypted=allow'), wrong('encrypted: given twice'));
    t.match(await raw(Buffer.from('x'), '?encrypt=reject'), { status: 400, body: { message: /unknown: encrypt$/ } });
  });
});
