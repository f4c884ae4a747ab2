// Newer signatures under a running service. The first scan after the reload finds what was clean before, and no scan fails
// meanwhile. Each answer names the signatures that looked. Files that can't be loaded leave the old ones serving.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { startServer, type TestServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { type UploadAnswer, upload } from '../fixtures/upload.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const MARK = 'a mark that the next database knows';
const OLD = bodySignature('Test.Old', 'some other mark');
const NEW = OLD + bodySignature('Test.New', MARK);

interface Readiness {
  readonly status: number;
  readonly text: string;
}

async function readiness(server: TestServer): Promise<Readiness> {
  const response = await fetch(`${server.url}/readyz`);
  return { status: response.status, text: await response.text() };
}

/** The first answer that has the text in it. */
function readinessWith(server: TestServer, text: string | RegExp): Promise<Readiness> {
  return until(async () => {
    const answer = await readiness(server);
    return (typeof text === 'string' ? answer.text.includes(text) : text.test(answer.text)) && answer;
  });
}

/** In one step, as freshclam does it. */
function replace(folder: string, name: string, content: string): void {
  writeFileSync(join(folder, `${name}.part`), content);
  renameSync(join(folder, `${name}.part`), join(folder, name));
}

function facts({ status, headers, body }: UploadAnswer) {
  return {
    status,
    infected: body['infected'],
    cache: headers.get('x-scan-cache'),
    engine: headers.get('x-scan-engine'),
  };
}

// For the first two tests: the second one begins with what the first one has loaded.
const folder = databaseFolder(t, { 'a.ndb': OLD });
const server = await startServer({ t, env: { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0' } });

t.test('the same bytes are clean, then known, then found at the first scan after the reload', async (t) => {
  const first = facts(await upload(server.url, MARK));
  t.match(first, { status: 200, infected: false, cache: 'MISS' });
  t.match(facts(await upload(server.url, MARK)), { ...first, cache: 'HIT' });
  replace(folder, 'a.ndb', NEW);
  process.kill(server.pid, 'SIGHUP');
  await readinessWith(server, '"signatures":2');
  const found = facts(await upload(server.url, MARK));
  t.match(found, { status: 200, infected: true, cache: 'MISS' });
  t.not(found.engine, first.engine, 'the answer names the new signatures');
  t.match(facts(await upload(server.url, MARK)), { ...found, cache: 'HIT' });
});

t.test("databases that can't be loaded leave the old ones serving, and are reported", async (t) => {
  const good = readFileSync(join(folder, 'a.ndb'), 'utf8');
  const cases: readonly (readonly [string, () => void, RegExp])[] = [
    ['a broken line', () => replace(folder, 'a.ndb', `${NEW}not a signature\n`), /a\.ndb/],
    [
      'a corrupt container',
      () => writeFileSync(join(folder, 'daily.cvd'), `ClamAV-VDB:${'x'.repeat(600)}`),
      /daily\.cvd/,
    ],
    ['harmless text that is found', () => replace(folder, 'a.ndb', bodySignature('Test.Bad', 'harmless')), /self-test/],
    ['an empty folder', () => rmSync(join(folder, 'a.ndb')), /no signature database/],
    ['no folder', () => renameSync(folder, `${folder}.gone`), /Cannot read|no such file/],
  ];
  for (const [what, spoil, reason] of cases) {
    spoil();
    process.kill(server.pid, 'SIGHUP');
    const answer = await readinessWith(server, reason);
    t.equal(answer.status, 200, `${what}: still ready`);
    t.match(
      JSON.parse(answer.text),
      { engine: { status: 'ready', signatures: 2, reload: { status: 'failed' } } },
      what,
    );
    t.match(answer.text, basename(folder), `${what}: the folder is named`);
    t.match(facts(await upload(server.url, `${MARK} ${what}`)), { status: 200, infected: true }, what);
    rmSync(join(folder, 'daily.cvd'), { force: true });
    if (what === 'no folder') renameSync(`${folder}.gone`, folder);
    replace(folder, 'a.ndb', good);
    process.kill(server.pid, 'SIGHUP');
    await readinessWith(server, '"reload":{"status":"none"}');
  }
  t.ok(await server.printed(/(the signatures could not be loaded: those from before go on)/));
});

t.test('a changed folder is noticed without a signal, and one that was empty at the start as well', async (t) => {
  const folder = databaseFolder(t, { 'a.txt': '' });
  const server = await startServer({
    t,
    env: { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '1' },
    untilReady: false,
  });
  t.equal((await readinessWith(server, 'no signature database')).status, 503);
  replace(folder, 'a.ndb', OLD);
  await readinessWith(server, '"status":"ready","engine":{"status":"ready","signatures":1');
  t.match(facts(await upload(server.url, MARK)), { infected: false });
  replace(folder, 'b.ndb', bodySignature('Test.New', MARK));
  await readinessWith(server, '"signatures":2');
  t.match(facts(await upload(server.url, MARK)), { infected: true });
});
