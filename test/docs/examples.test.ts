// The examples of the documentation, run against the server as they stand: each finds what is clean and what is infected.
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';
import { nestedZip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';

const examples = fileURLToPath(new URL('../../../docs/examples/', import.meta.url));

async function run(program: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(program, args, {
    // Java opens no file whose name has letters that its locale doesn't know.
    env: { PATH: process.env['PATH'], HOME: tmpdir(), LC_ALL: 'C.UTF-8', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { output, errors, code };
}

t.test('examples', async (t) => {
  const folder = temporaryFolder(t);
  const { url, stop } = await startServer({ isSupervised: true });
  t.teardown(() => stop());
  const clean = join(folder, 'clean.txt');
  writeFileSync(clean, 'nothing here');
  const infected = join(folder, 'virus.com');
  writeFileSync(infected, eicar());
  const unsure = join(folder, 'deep.zip');
  writeFileSync(unsure, nestedZip(Buffer.from('deep'), 40));
  // Node 20 runs no TypeScript: the types are taken off, as newer versions do by themselves.
  const script = join(folder, 'scan.mjs');
  const source = readFileSync(join(examples, 'scan.ts'), 'utf8');
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  writeFileSync(script, ts.transpileModule(source, { compilerOptions }).outputText);

  // `go run` has an exit code of its own.
  const goProgram = join(folder, 'scan-go');
  const goEnv = { PATH: process.env['PATH'], HOME: folder };
  t.equal(spawnSync('go', ['build', '-o', goProgram, join(examples, 'scan.go')], { env: goEnv }).status, 0);

  // Each run of the source would compile it again.
  t.equal(spawnSync('javac', ['-d', folder, join(examples, 'scan.java')]).status, 0);

  // Python by its path: one of one's own may come before the one that has the package.
  const languages: [string, string, string[]][] = [
    ['curl', '/bin/sh', [join(examples, 'scan.sh')]],
    ['Python', '/usr/bin/python3', [join(examples, 'scan.py')]],
    ['TypeScript', process.execPath, [script]],
    ['Go', goProgram, []],
    ['Java', 'java', ['-cp', folder, 'Scan']],
    ['PHP', 'php', [join(examples, 'scan.php')]],
  ];
  for (const [name, program, args] of languages) {
    t.test(name, async (t) => {
      const env = { SLUICE_URL: url, SLUICE_API_KEY: API_KEY };
      t.match(await run(program, [...args, clean], env), { code: 0, output: /clean|"infected":false/ });
      t.match(await run(program, [...args, infected], env), { code: 1, output: /EICAR/i });
      t.match(
        await run(program, [...args, unsure], env),
        { code: 2, output: /^(?!.*(clean|"infected":false))/is },
        'no verdict',
      );
      const refused = await run(program, [...args, clean], { ...env, SLUICE_API_KEY: 'f'.repeat(32) });
      t.equal(refused.code, 2, 'no verdict is not clean');
      t.match(refused.errors + refused.output, /X-API-KEY INVALID/);
      const quoted = join(folder, 'the "naïve" file; it\'s 100%.txt');
      writeFileSync(quoted, name);
      t.match(await run(program, [...args, quoted], env), { code: 0 });
      const scans = await fetch(`${url}/api/v1/scans?limit=1`, { headers: { 'X-API-KEY': API_KEY } });
      t.match(await scans.json(), { content: [{ filename: basename(quoted) }] });
      t.equal((await run(program, [...args, clean], { ...env, SLUICE_URL: 'http://127.0.0.1:1' })).code, 2);
    });
  }
});
