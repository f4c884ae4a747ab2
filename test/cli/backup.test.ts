// A backup that is made while the service serves, and the service that comes of it.
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { mainPath } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const cli = (...args: string[]) => cliWith({}, ...args);

async function cliWith(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout, stderr } = await start(t, mainPath, args, { env }).ended;
  return { code, text: code === 0 ? stdout : stderr };
}

async function scansOf(url: string, filter = ''): Promise<number> {
  const { accessToken } = await signIn(url);
  const { body } = await ask(`${url}/web/scans/stats?size=1${filter}`, { headers: bearer(accessToken) });
  return Number(Object(body).totalElements);
}

t.test('what was there at the backup is there after the restore, and what is no backup makes nothing', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'one.backup');
  const server = await startServer();
  t.teardown(() => server.stop());
  // Its deliveries are numbered, also behind those that are back.
  const { accessToken } = await signIn(server.url);
  const webhook = { url: 'https://receiver.example/' };
  t.equal((await post(`${server.url}/web/webhooks`, webhook, bearer(accessToken))).status, 201);
  for (const content of ['one', 'two', eicar()]) t.equal((await upload(server.url, content)).status, 200);
  await until(async () => (await scansOf(server.url)) === 3);
  const data = `${server.directory}/data`;
  t.equal((await cli('user', 'set-limit', 'admin@sluice.local', '123456', '--data-dir', data)).code, 0);

  // The service goes on meanwhile.
  let isOver = false;
  const scanning = (async () => {
    while (!isOver) t.equal((await upload(server.url, 'meanwhile')).status, 200);
  })();
  const made = await cli('backup', file, '--data-dir', data);
  isOver = true;
  await scanning;
  t.match(made, { code: 0, text: /one\.backup has \d+ rows/ });
  t.equal(statSync(file).mode & 0o777, 0o600, 'nobody else may read it');
  t.match(await cli('backup', file, '--data-dir', data), { code: 2, text: /is there already/ });
  const nowhere = join(folder, 'nowhere', 'one.backup');
  t.match(await cli('backup', nowhere, '--data-dir', data), { code: 2, text: /^ENOENT: .*, open '.*nowhere/ });
  t.match(await cli('restore', file, '--data-dir', data), { code: 2, text: /in use/ });

  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');
  const broken = {
    cut: lines.slice(0, -1),
    other: [lines[0]?.replace(/"schema":"../, '"schema":"zz'), ...lines.slice(1)],
  };
  const fresh = join(folder, 'data');
  for (const [name, text] of Object.entries(broken)) {
    writeFileSync(join(folder, name), gzipSync(`${text.join('\n')}\n`));
  }
  const damaged = readFileSync(file);
  damaged.writeUInt8(damaged.readUInt8(damaged.length >> 1) ^ 1, damaged.length >> 1);
  writeFileSync(join(folder, 'damaged'), damaged);
  for (const name of [...Object.keys(broken), 'damaged']) {
    t.equal((await cli('restore', join(folder, name), '--data-dir', fresh)).code, 2, name);
  }
  for (const none of [join(folder, 'nothing'), folder]) {
    t.match(await cli('restore', none, '--data-dir', fresh), { code: 2, text: /can't be read/ }, none);
  }
  t.notOk(existsSync(fresh), 'nothing is made of them');
  // The folder that is named counts, whatever the environment says.
  const other = { DATABASE_URL: 'postgres://127.0.0.1:1/sluice' };
  t.match(await cliWith(other, 'restore', file, '--data-dir', fresh), { code: 0, text: `with DATA_DIR=${fresh}\n` });
  t.match(await cli('restore', file, '--data-dir', fresh), { code: 2, text: /rows in audit_log already/ });

  const again = await startServer({ directory: folder });
  t.teardown(() => again.stop());
  const answer = await upload(again.url, 'after', { key: API_KEY });
  t.equal(answer.status, 200, 'the key is one');
  t.equal(answer.headers.get('x-ratelimit-limit'), '123456');
  const sha256 = String(answer.headers.get('x-scan-sha256'));
  await until(async () => (await scansOf(again.url, `&sha256=${sha256}`)) === 1);
  t.ok((await scansOf(again.url)) >= 4);
  t.match(await cli('audit', '--data-dir', fresh), { code: 0, text: /account\.limit/ });
  t.equal((await cli('user', 'delete', 'admin@sluice.local', '--yes', '--data-dir', fresh)).code, 0);
  await again.stop();
  const used = await cli('restore', file, '--data-dir', fresh);
  t.match(used, { code: 2, text: /rows in \w+ already/ }, 'what sealed its secrets would be lost');
});
