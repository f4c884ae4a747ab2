// What a client says of a scan is kept with it, by whichever way it was said; so is the URL; and a content is known again by its digest.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { makeAccount } from '../fixtures/another-account.js';
import { onNodes } from '../fixtures/nodes.js';
import { response, startOrigin } from '../fixtures/origin.js';
import { API_KEY } from '../fixtures/server.js';
import { ask, askInTurn, bearer, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { type FormPart, formOf, upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const key = { 'X-API-KEY': API_KEY };
const raw = { 'Content-Type': 'application/octet-stream', 'X-Filename': 'a.bin' };
const json = { 'Content-Type': 'application/json' };

const origin = await startOrigin(({ send }) => send(response('hello')));
const remote = `http://127.0.0.1:${origin.port}/a.txt`;
t.teardown(() => origin.stop());
const directory = databaseFolder(t, { 'nothing.ndb': bodySignature('Nothing', 'never in any content') });
const env = {
  REGISTRATION: 'open',
  URL_ALLOW_NETWORKS: '127.0.0.1/32',
  URL_PORTS: String(origin.port),
  SIGNATURES_DIR: directory,
  SIGNATURES_POLL_SECONDS: '1',
};

const file: FormPart = ['file', new Blob(['hello']), 'a.txt'];

onNodes({ env }, async (t, { one, other }) => {
  const read = (url: string) => askInTurn(url, { headers: key });

  async function scanOf(id: string | null): Promise<unknown> {
    return (await read(`${other.url}/api/v1/scans/${id}`)).body;
  }

  async function sendTo(path: string, body: RequestInit['body'], headers: Readonly<Record<string, string>>) {
    const answer = await fetch(one.url + path, { method: 'POST', headers, ...(body === undefined ? {} : { body }) });
    const fields: unknown = await answer.json();
    return { status: answer.status, id: answer.headers.get('x-scan-id'), body: fields };
  }

  const send = (body: RequestInit['body'], headers: Readonly<Record<string, string>> = {}, query = '') =>
    sendTo(`/api/v1/scans${query}`, body, { ...key, ...headers });

  t.test('said as a field, a header, a parameter or in JSON, it is in the detail and in the list', async (t) => {
    const text = '{"order":"7", "names":["Ünï", "a\\"b"]}';
    const encoded = encodeURIComponent(text);
    const me = bearer((await signIn(one.url)).accessToken);
    const ways = {
      'a field before the file': await send(formOf(['metadata', text], file)),
      'a field behind the file': await send(formOf(file, ['metadata', text])),
      'a field beside a URL': await send(formOf(['metadata', text], ['url', remote])),
      'a header': await send('hello', { ...raw, 'X-Metadata': encoded }),
      'a header beside a form': await send(formOf(file), { 'X-Metadata': encoded }),
      'a parameter': await send('hello', raw, `?metadata=${encoded}`),
      'a parameter beside a form': await send(formOf(file), {}, `?metadata=${encoded}`),
      JSON: await send(JSON.stringify({ url: remote, metadata: text }), json),
      pairs: await send(new URLSearchParams({ metadata: text, url: remote })),
      'a header of who is signed in': await sendTo('/web/scans', formOf(file), { ...me, 'X-Metadata': encoded }),
      'a header beside JSON': await sendTo('/web/url-scans', JSON.stringify({ url: remote }), {
        ...{ ...me, ...json },
        'X-Metadata': encoded,
      }),
    };
    for (const [way, { status, id }] of Object.entries(ways)) {
      t.equal(status, 200, way);
      t.match(await scanOf(id), { metadata: text }, way);
    }
    const { id } = ways['a header'];
    t.match((await ask(`${other.url}/web/scans/${id}`, { headers: me })).body, { metadata: text, url: null });
    const content = z.object({ content: z.array(z.object({ metadata: z.unknown(), url: z.unknown() })) });
    let listed = content.parse({ content: [] });
    await until(async () => {
      listed = content.parse((await read(`${other.url}/api/v1/scans`)).body);
      return listed.content.length === Object.keys(ways).length;
    });
    t.ok(listed.content.every(({ metadata }) => metadata === text));
    t.strictSame(listed.content.filter(({ url }) => url === remote).length, 4);
  });

  t.test('what it may be', async (t) => {
    const most = 'ü'.repeat(512);
    t.match(await scanOf((await send(formOf(file, ['metadata', most]))).id), { metadata: most });
    t.match(await scanOf((await send(formOf(file, ['metadata', '']))).id), { metadata: '' });
    t.match(await scanOf((await send(formOf(file, ['metadata', 'a\r\n\tb']))).id), { metadata: 'a\r\n\tb' });
    t.match(await scanOf((await send(formOf(file))).id), { metadata: null });
    const wrong = async (sent: Promise<{ status: number; id: string | null; body: unknown }>, message: string) => {
      const { status, id, body } = await sent;
      t.match({ status, body }, { status: 400, body: { error: 'Bad request', message } }, message);
      t.match(await scanOf(id), { state: 'failed', status: '400', error: message, metadata: null });
    };
    const tooLong = 'metadata: must be at most 1024 bytes long';
    await wrong(send(formOf(file, ['metadata', `${most}x`])), tooLong);
    await wrong(send('x', { ...raw, 'X-Metadata': 'x'.repeat(1025) }), tooLong);
    await wrong(send('x', raw, `?metadata=${'x'.repeat(1025)}`), tooLong);
    await wrong(send(JSON.stringify({ url: remote, metadata: 'x'.repeat(1025) }), json), tooLong);
    await wrong(send(formOf(file, ['metadata', 'a\0b'])), 'metadata: must not have control characters');
    await wrong(send('x', { ...raw, 'X-Metadata': '%00' }), 'metadata: must not have control characters');
    const twice = 'metadata: given twice';
    await wrong(send('x', { ...raw, 'X-Metadata': 'a' }, '?metadata=a'), twice);
    await wrong(send('metadata=a&metadata=b&url=x', { 'Content-Type': 'application/x-www-form-urlencoded' }), twice);
    for (const sent of [
      await send(formOf(file, ['metadata', 'a'], ['metadata', 'b'])),
      await send(formOf(file, ['metadata', 'a']), { 'X-Metadata': 'b' }),
      await send(formOf(['metadata', 'a'], file), {}, '?metadata=b'),
      await send(JSON.stringify({ url: remote, metadata: 'a' }), json, '?metadata=b'),
    ]) {
      t.match(sent, { status: 400, body: { message: twice } });
    }
    const latin = Buffer.from(
      '--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n\xff\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--b--\r\n',
      'latin1',
    );
    await wrong(send(latin, { 'Content-Type': 'multipart/form-data; boundary=b' }), 'metadata: must be UTF-8');
    const refused = await send(formOf(['metadata', 'order 7'], ['file', new Blob([]), 'a.txt']));
    t.match(await scanOf(refused.id), { state: 'failed', error: 'File is empty', metadata: 'order 7' });
    t.notMatch(one.output(), 'order 7', 'it is in no log');
  });

  t.test('the URL of a scan is kept without credentials', async (t) => {
    const sent = await send(JSON.stringify({ url: `http://user:secret@127.0.0.1:${origin.port}/a.txt` }), json);
    t.match(sent, { status: 400, body: { message: /credentials/ } });
    t.match(await scanOf(sent.id), { state: 'failed', url: remote });
    const host = await send(JSON.stringify({ url: `http://127.0.0.1:${origin.port}` }), json);
    t.match(await scanOf(host.id), { filename: '127.0.0.1', extension: '', url: `http://127.0.0.1:${origin.port}/` });
    const long = await send(JSON.stringify({ url: `${remote}?${'x'.repeat(5_000)}` }), json);
    t.match(await scanOf(long.id), { url: `${remote}?${'x'.repeat(5_000)}`.slice(0, 2048) });
    t.match(await scanOf((await send(JSON.stringify({ url: 'no url' }), json)).id), { url: null });
  });

  t.test('a content is known by its digest, with the signatures of its verdict', async (t) => {
    const content = Buffer.from(`a content of its own, on ${other.port}`);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const path = `${other.url}/api/v1/files/${sha256}`;
    t.equal((await read(path)).status, 404);
    const scanned = await upload(one.url, content, { filename: 'x.com' });
    const id = scanned.headers.get('x-scan-id');
    await until(async () => (await read(path)).status === 200);
    const known = await read(path);
    t.match(known.body, {
      id,
      sha256,
      state: 'completed',
      infected: false,
      signatures: /^[0-9a-f]{8}$/,
      current: true,
    });
    t.equal((await read(path.replace(sha256, sha256.toUpperCase()))).status, 200);
    const stranger = await makeAccount(one.url, 'stranger@example.com');
    t.equal((await ask(path, { headers: { 'X-API-KEY': stranger.key } })).status, 404, 'nobody else learns of it');
    const more = bodySignature(`More.${other.port}`, content.toString());
    writeFileSync(join(directory, `${other.port}.ndb`), more);
    await until(async () => {
      const { body } = await read(path);
      return z.object({ current: z.boolean() }).parse(body).current === false;
    });
    await until(async () => (await upload(one.url, content)).body['infected'] === true);
    await until(async () => {
      const { body } = await read(path);
      return z.object({ infected: z.boolean(), current: z.boolean() }).parse(body).infected;
    });
    for (const wrong of ['x', sha256.slice(1), `${sha256}0`]) {
      t.equal((await read(`${other.url}/api/v1/files/${wrong}`)).status, 404, wrong);
    }
  });
});
