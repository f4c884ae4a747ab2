// Scans by ICAP and by clamd's protocol in the history: by what they came, for whom the proxy asked, and the operator's own page.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { clientFacts } from '../../src/icap/request.js';
import { ask as askClamd, bytesOf, socketPlace, stream } from '../clamd/client.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { ask, bearer, PASSWORD, signIn } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';
import { CLEAN, connect, EICAR, EMAIL, startOurs } from './client.js';

t.test('each scan says by what it came; ICAP also for whom', async (t) => {
  const folder = temporaryFolder(t);
  const page = join(folder, 'page.html');
  writeFileSync(page, '<h1>Ours: {{reason}}</h1> {{filename}} {{other}}');
  const path = socketPlace();
  const { server, port } = await startOurs({ CLAMD_SOCKET: path, CLAMD_ACCOUNT: EMAIL, ICAP_BLOCK_PAGE: page }, { t });
  const client = await connect(port);
  t.teardown(client.end);
  const user = Buffer.from('Local://anna').toString('base64');
  const headers = ['X-Client-IP: 192.0.2.7', `X-Authenticated-User: ${user}`];
  const blocked = await client.ask({ body: EICAR, preview: 100, headers });
  t.match(blocked.body?.toString(), /<h1>Ours: Sluice\.Test\.EICAR[^<]*<\/h1> report\.bin \{\{other\}\}/);
  t.equal((await client.ask({ body: CLEAN, preview: 100 })).status, 204);
  t.equal(await askClamd({ path }, bytesOf('zINSTREAM\0', stream(CLEAN))), 'stream: OK\0');
  t.equal((await upload(server.url, 'hello')).status, 200);

  const me = bearer((await signIn(server.url, EMAIL, PASSWORD)).accessToken);
  const listed = async (query: string): Promise<unknown> =>
    (await ask(`${server.url}/web/scans/stats?sort=creationDate,asc&${query}`, { headers: me })).body;
  t.match(await listed(''), { content: ['icap', 'icap', 'clamd', 'http'].map((protocol) => ({ protocol })) });
  t.match(await listed('protocol=icap&verdict=infected'), { totalElements: 1, content: [{ protocol: 'icap' }] });
  t.match(await listed('protocol=clamd'), { totalElements: 1, content: [{ filename: 'stream' }] });
  t.match(await listed('protocol=http'), { totalElements: 1 });
  t.equal((await ask(`${server.url}/web/scans/stats?protocol=smtp`, { headers: me })).status, 400);
  const csv = await fetch(`${server.url}/web/scans/stats/export?protocol=icap`, { headers: me });
  const [head = '', ...lines] = (await csv.text()).trimEnd().split('\r\n');
  t.match(head, /,protocol,metadata,url,keyUuid$/);
  t.equal(lines.length, 2);
  t.match(lines[1], /,icap,"\{""clientIp"":""192\.0\.2\.7"",""user"":""Local:\/\/anna""\}",,$/);
});

t.test('what is too large is said to be over the limit that holds, and not over that of files by HTTP', async (t) => {
  const mb = 1024 * 1024;
  for (const [env, limitBytes, limit, notice] of [
    [{ STREAM_MAX_MB: '12' }, 12 * mb, '12MB', '12 MB'],
    // A quarter of the memory.
    [{}, 16.5 * mb, '17301504 bytes', '17301504 bytes'],
  ] as const) {
    const { server, port } = await startOurs({ UPLOAD_MEMORY_MB: '66', ...env }, { t });
    const client = await connect(port);
    const blocked = await client.ask({ body: Buffer.alloc(limitBytes + 1, 1), preview: 100 });
    t.equal(blocked.headers.get('x-sluice-notice'), `The content is over ${notice}`);
    client.end();
    const me = bearer((await signIn(server.url, EMAIL, PASSWORD)).accessToken);
    const { body } = await ask(`${server.url}/web/scans/stats`, { headers: me });
    t.match(body, { content: [{ status: '400', error: `File size exceeds limit: ${limit}` }] });
  }
});

t.test('what a client says of the one whom it asks for', async (t) => {
  const facts = (address: string | null, user: string | null): string | null =>
    clientFacts(
      new Map([
        ...(address === null ? [] : [['x-client-ip', address] as const]),
        ...(user === null ? [] : [['x-authenticated-user', user] as const]),
      ]),
    );
  t.equal(facts(null, null), null);
  t.equal(facts('somebody', ''), null);
  t.equal(facts('2001:db8::1', null), '{"clientIp":"2001:db8::1"}');
  t.equal(facts(null, 'anna'), '{"user":"anna"}', 'a name that looks like Base64');
  t.equal(facts(null, 'TERBUDovL2RjPWV4YW1wbGUvY249YW5uYQ=='), '{"user":"LDAP://dc=example/cn=anna"}');
  t.ok(Buffer.byteLength(facts('192.0.2.1', '\u00ff"'.repeat(8_000)) ?? '') <= 1024);
});
