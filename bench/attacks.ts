// `npm run bench:attacks`: what an account that does nothing wrong has left beside each of the attacks that a server must live with, over loopback, one after the
// other. The attacker has the same cores as the server, which no attacker over a network has: so each is compared with a process that only burns as much of them.
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory } from '../src/paths.js';
import { type Account, makeAccount } from '../test/fixtures/another-account.js';
import type { Asked } from '../test/fixtures/flood.js';
import { whole } from '../test/fixtures/option-values.js';
import { PASSWORD, post } from '../test/fixtures/sign-in.js';
import { beside } from './beside-process.js';
import { compile, loadProgram } from './compile.js';
import { askForFiles, askForRun } from './contestants/contestant.js';
import { type Server, startServer } from './contestants/sluice.js';
import { cpuSeconds, privateMegabytes, untilIdle } from './cpu.js';
import { makeFileSet } from './files.js';
import { type LineProcess, startLineProcess } from './line-process.js';

/** What one client, or many at once, send without end. */
export type Attack =
  | { readonly kind: 'ask'; readonly connections: number; readonly asked: Asked }
  | { readonly kind: 'raw'; readonly connections: number; readonly raw: string; readonly reads: boolean };

const SECONDS = 3;
const SIGN_INS = 100;
const SIGN_INS_AT_ONCE = 4;
const CONNECTIONS = 4;
/** Rows of the attacker's history, for attacks on the store. */
const ROWS = 40_000;
const MEMORY_EVERY_MS = 100;

function attacksOf({ accessToken, key }: Account): Readonly<Record<string, Attack>> {
  const json = { 'Content-Type': 'application/json' };
  const bearer = { Authorization: `Bearer ${accessToken}` };
  // Each time another signature, under the `kid` of a real key: one that was seen is refused without a look.
  const forged = { Authorization: `Bearer ${accessToken.replace(/[^.]+$/, '{signature}')}` };
  const ask = (
    connections: number,
    method: string,
    path: string,
    headers: Asked['headers'],
    body?: object,
  ): Attack => ({
    kind: 'ask',
    connections,
    asked: { method, path, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) },
  });
  const raw = (text: string, reads: boolean, connections = 1): Attack => ({
    kind: 'raw',
    connections,
    raw: text,
    reads,
  });
  const login = { email: 'victim@bench.example', password: 'not the right one' };
  const cookie = { Cookie: 'sluice_refresh={token}' };
  return {
    '600 connections with made-up refresh tokens': ask(600, 'POST', '/web/auth/refresh', cookie),
    '600 connections that sign made-up tokens out': ask(600, 'POST', '/web/auth/logout', cookie),
    '400 connections with wrong passwords': ask(400, 'POST', '/web/auth/login', json, login),
    '1500 connections with forged access tokens': ask(1_500, 'GET', '/web/keys/me', forged),
    '80 connections that change their password to itself': ask(
      80,
      'PUT',
      '/web/users/me',
      { ...json, ...bearer },
      {
        currentPassword: PASSWORD,
        newPassword: PASSWORD,
      },
    ),
    '1200 connections for the own keys': ask(1_200, 'GET', '/web/keys/me', bearer),
    '400 connections for the history by filename': ask(400, 'GET', '/web/scans/stats?sort=filename', bearer),
    '20 connections for deep pages of a search': ask(
      20,
      'GET',
      '/web/scans/stats?q=x&sort=lastUpdate&size=200&page=40',
      bearer,
    ),
    '4 connections of headers of a part that are hard to read': {
      kind: 'ask',
      connections: 4,
      asked: {
        method: 'POST',
        path: '/api/v1/scans',
        headers: { 'X-API-KEY': key, 'Content-Type': 'multipart/form-data; boundary=b' },
        body: `--b\r\nX:${' '.repeat(16_200)}\nfoo: bar\r\n\r\nx\r\n--b--\r\n`,
      },
    },
    'one connection of /livez, read': raw('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', true),
    'one connection of /openapi.json, not read': raw('GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n', false),
    '40 connections of bodies that never end': raw(
      `POST /api/v1/scans HTTP/1.1\r\nHost: a\r\nX-API-KEY: ${'f'.repeat(32)}\r\n\
Content-Length: 9000000\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n${'x'.repeat(1_000)}`,
      true,
      40,
    ),
  };
}

interface Setting {
  readonly server: Server;
  readonly url: string;
  readonly client: LineProcess;
}

interface Innocent {
  readonly scansPerSecond: number;
  /** What the server had meanwhile, and the process beside it. */
  readonly serverCores: number;
  readonly otherCores: number;
}

async function scan({ client, server }: Setting, other: number | null = null): Promise<Innocent> {
  const used = (pid: number | null): number => (pid === null ? 0 : cpuSeconds(pid));
  const [serverBefore, otherBefore] = [used(server.pid), used(other)];
  const { scans, seconds } = await askForRun(client, `run ${SECONDS} ${CONNECTIONS} keep`);
  return {
    scansPerSecond: scans / seconds,
    serverCores: (used(server.pid) - serverBefore) / seconds,
    otherCores: (used(other) - otherBefore) / seconds,
  };
}

/** How many of those that are tried succeed. */
async function signIns({ url }: Setting): Promise<number> {
  let left = SIGN_INS;
  let right = 0;
  async function lane(): Promise<void> {
    while (left > 0) {
      left -= 1;
      const answer = await post(`${url}/web/auth/login`, { email: 'innocent@bench.example', password: PASSWORD }).catch(
        () => null,
      );
      if (answer?.status === 200) right += 1;
    }
  }
  await Promise.all(Array.from({ length: SIGN_INS_AT_ONCE }, lane));
  return right;
}

async function measure(setting: Setting, name: string, attack: Attack): Promise<void> {
  const { server } = setting;
  await untilIdle(server.pid);
  let most = 0;
  // Looking costs the server some time: it is looked at all along.
  const looking = setInterval(() => {
    most = Math.max(most, privateMegabytes(server.pid));
  }, MEMORY_EVERY_MS);
  const alone = await scan(setting);
  await untilIdle(server.pid);
  const before = privateMegabytes(server.pid);
  most = before;
  let attacked = alone;
  let signedIn = 0;
  const answers = await beside('attack-process.js', JSON.stringify({ port: server.port, attack }), async (pid) => {
    attacked = await scan(setting, pid);
    signedIn = await signIns(setting);
  });
  const grown = most - before;
  await untilIdle(server.pid);
  let burnt = alone;
  await beside('burn-process.js', String(Math.min(1, attacked.otherCores)), async () => {
    burnt = await scan(setting);
  });
  clearInterval(looking);
  const forTheAttack = attacked.serverCores - (attacked.scansPerSecond * alone.serverCores) / alone.scansPerSecond;
  const shareOf = (other: Innocent): string =>
    `${(attacked.scansPerSecond / other.scansPerSecond).toFixed(2)} of ${other.scansPerSecond.toFixed(0)} scans/s`;
  process.stdout.write(
    `${name}: ${shareOf(burnt)} beside a process that burns as much, ${shareOf(alone)} alone; ` +
      `${attacked.otherCores.toFixed(2)} cores of the attacker, ${forTheAttack.toFixed(2)} of the server for it; ` +
      `${signedIn} of ${SIGN_INS} sign-ins, +${grown.toFixed(0)} MB; it had ${answers || 'no answer'}\n`,
  );
}

const options = new Command('bench:attacks')
  .description(
    'What an innocent account keeps beside each attack, compared with a process that burns as much of the same cores.',
  )
  .option('--only <text>', 'attacks whose name has this', '')
  .option('--rounds <count>', 'of all attacks', whole, 1)
  .parse()
  .opts<{ only: string; rounds: number }>();

const folder = await mkdtemp(join(tmpdir(), 'sluice-attacks-'));
const server = await startServer(
  { databaseDirectory: ownSignaturesDirectory, threads: availableParallelism(), folder },
  { REGISTRATION: 'open', PLANS: 'BENCH:999999999', VERDICT_CACHE_MB: '0' },
);
const client = startLineProcess(await compile(loadProgram));
try {
  const url = `http://127.0.0.1:${server.port}`;
  const attacker = await makeAccount(url, 'attacker@bench.example');
  await makeAccount(url, 'victim@bench.example');
  const innocent = await makeAccount(url, 'innocent@bench.example');
  const files = await makeFileSet(
    { name: '1KB', files: { kind: 'unique', sizeBytes: 1024 } },
    folder,
    async () => () => true,
  );
  await client.ask(`http ${server.port} ${attacker.key}`);
  await askForFiles(client, files);
  for (let rows = 0; rows < ROWS; ) rows += (await askForRun(client, 'run 1 32 keep')).scans;
  await client.ask(`http ${server.port} ${innocent.key}`);
  const setting = { server, url, client };
  for (let round = 0; round < options.rounds; round += 1) {
    for (const [name, attack] of Object.entries(attacksOf(attacker))) {
      if (name.includes(options.only)) await measure(setting, name, attack);
    }
  }
} finally {
  await client.stop();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}
