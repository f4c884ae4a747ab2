// `sluice scan --server`: the same findings and exit codes from a real server, and what it says of later is waited for.
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createServerExaminer, ServerRefuses } from '../../src/cli/examiners.js';
import { mainPath } from '../../src/paths.js';
import { nestedZip } from '../fixtures/archives.js';
import { start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';
import { ask } from '../fixtures/sign-in.js';

function scan(t: Test, cwd: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return start(t, mainPath, ['scan', ...args], { cwd, env: { SLUICE_API_KEY: API_KEY, ...env } }).ended;
}

const findings = (text: string): string[] => text.slice(0, text.lastIndexOf('\n\n')).split('\n');

t.test('by a server', async (t) => {
  const server = await startServer({ t });
  const path = temporaryFolder(t);
  mkdirSync(join(path, 'd'));
  for (let file = 10; file < 40; file += 1) writeFileSync(join(path, 'd', `clean ${file}`), `clean ${file}`);
  writeFileSync(join(path, 'virus "naïve".com'), eicar());
  writeFileSync(join(path, 'deep.zip'), nestedZip(Buffer.from('x'), 40));
  writeFileSync(join(path, 'large'), '');
  truncateSync(join(path, 'large'), 10 * 1024 * 1024 + 1);
  const to = ['--server', server.url];

  t.test('findings in order, and the exit codes of a scan without one', async (t) => {
    const clean = await scan(t, path, [...to, 'd']);
    t.same(
      findings(clean.stdout),
      Array.from({ length: 30 }, (_, file) => `d/clean ${file + 10}: CLEAN`),
    );
    t.match(clean, { code: 0, stdout: /\nScanned 30 files: 30 clean, 0 infected/, stderr: '' });
    const incomplete = await scan(t, path, [...to, 'deep.zip', 'large', 'missing']);
    t.match(findings(incomplete.stdout), [
      /^deep\.zip: INCOMPLETE engine limit exceeded/,
      'large: INCOMPLETE larger than 10 MB',
      'missing: FAILED no such file or folder',
    ]);
    t.equal(incomplete.code, 2);
    const all = await scan(t, path, [...to, '--infected-only', '.']);
    t.match(findings(all.stdout), [/^\.\/virus "naïve"\.com: INFECTED Sluice\.Test\.EICAR/]);
    t.equal(all.code, 1);
    const found = await ask(`${server.url}/api/v1/scans?verdict=infected`, { headers: { 'X-API-KEY': API_KEY } });
    t.match(found.body, { content: [{ filename: 'virus "naïve".com' }] });
    const { files, summary } = Object(JSON.parse((await scan(t, path, [...to, '--json', 'd', 'deep.zip'])).stdout));
    t.match(files[0], { path: 'd/clean 10', infected: false, sha256: /^[0-9a-f]{64}$/, scanDurationMillis: Number });
    t.match([files.length, files[30], summary], [31, { infected: null }, { files: 31, clean: 30, incomplete: 1 }]);
  });

  t.test('a key that may not, no key, and no server: exit code 2, said once', async (t) => {
    const refused = await scan(t, path, [...to, '--key', 'f'.repeat(32), 'd']);
    t.match(refused, { code: 2, stderr: 'sluice: the server says 401: X-API-KEY INVALID\n' });
    t.notMatch(refused.stdout, /CLEAN/);
    t.match(await scan(t, path, [...to, 'd'], { SLUICE_API_KEY: '' }), { code: 2, stderr: /a server asks for a key/ });
    t.match(await scan(t, path, ['--server', 'ftp://x', 'd']), { code: 2, stderr: /must be an address/ });
    const alone = await scan(t, path, ['--key', API_KEY, 'd']);
    t.match(alone, { code: 2, stderr: 'sluice: --key is for --server, which is not given\n' });
    const torn = await scan(t, path, [...to, 'd'], { SLUICE_API_KEY: `${API_KEY}\r` });
    t.match(torn, { code: 2, stderr: 'sluice: the key has characters that no key has\n' });
  });
});

t.test('where no server of ours can be reached by that address, it is said at once', async (t) => {
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === '/moved/api/v1/scans')
      response.writeHead(301, { Location: 'https://scan.example.com/\u009b' }).end();
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port }: AddressInfo = Object(server.address());
  const path = temporaryFolder(t);
  writeFileSync(join(path, 'a'), 'a');
  for (const [url, said] of [
    [`http://127.0.0.1:${port}`, 'the server says 404: no answer of Sluice'],
    [
      `http://127.0.0.1:${port}/moved`,
      'the server says 301: name the address that it leads to, https://scan.example.com/\\x9b',
    ],
    [`https://127.0.0.1:${port}`, /no answer: .*SSL/],
    ['http://127.0.0.1:6000', /nothing was sent: have the server, or a proxy in front of it, listen on another port\n/],
  ] as const) {
    const { code, stdout, stderr } = await scan(t, path, ['--server', url, 'a']);
    t.match([code, stdout, stderr], [2, /^\nStopped after 0 files/, said], url);
  }
});

t.test('a server that does not answer is asked again for a while, and then for no further file', async (t) => {
  const server = createNetServer((socket) => void socket.destroy());
  let asked = 0;
  server.on('connection', () => {
    asked += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port }: AddressInfo = Object(server.address());
  const { signal } = new AbortController();
  const options = { url: `http://127.0.0.1:${port}`, key: API_KEY, signal, onWait: () => undefined };
  const { examine } = createServerExaminer({ ...options, firstPauseMs: 1 });
  const content = new Uint8Array(new SharedArrayBuffer(1));
  const reason: unknown = await examine(content, 'a').catch((error: unknown) => error);
  t.ok(reason instanceof ServerRefuses, String(reason));
  t.equal(asked, 8);
});

t.test('what is refused for now is sent again with its Idempotency-Key, when the server has said', async (t) => {
  const keys: (string | undefined)[] = [];
  const answers: RequestListener[] = [
    (_request, response) =>
      response.writeHead(503, { 'Retry-After': '1' }).end('{"error":"Service unavailable","message":"x"}'),
    (request) => request.socket.destroy(),
    (_request, response) =>
      response.writeHead(429, { 'Retry-After': '1' }).end('{"error":"Rate limit exceeded","message":"x"}'),
    (_request, response) => response.end('{"infected":false,"virusName":null,"scanDurationMillis":1}'),
  ];
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      keys.push(String(request.headers['idempotency-key']));
      answers[keys.length - 1]?.(request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const path = temporaryFolder(t);
  writeFileSync(join(path, 'a'), 'a');
  const { port }: AddressInfo = Object(server.address());
  const ended = await scan(t, path, ['--server', `http://127.0.0.1:${port}`, 'a']);
  t.match(ended, { code: 0, stdout: /^a: CLEAN\n/ });
  t.match([keys.length, new Set(keys).size], [4, 1]);
  t.match(ended.stderr, /429 x: waiting 1 s/);
});
