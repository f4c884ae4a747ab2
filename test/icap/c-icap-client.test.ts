// Debian's c-icap-client against a running server: with and without a preview, with and without 204.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { CLEAN, EICAR, startOurs } from './client.js';

async function run(args: readonly string[]): Promise<string> {
  const child = spawn('c-icap-client', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('latin1').on('data', (text: string) => {
      output += text;
    });
  }
  await once(child, 'close');
  return output;
}

t.test('c-icap-client', async (t) => {
  const { port } = await startOurs({}, { t });
  const folder = temporaryFolder(t);
  const to = ['-i', '127.0.0.1', '-p', String(port), '-s', 'avscan'];
  const options = await run(to);
  t.match(options, /Allow 204: Yes/);
  t.match(options, /Preview: 4096/);
  t.match(options, /Keep alive: Yes/);
  const big = Buffer.alloc(200_000, 'clean text\n');
  for (const [name, content] of Object.entries({ small: CLEAN, big, eicar: EICAR })) {
    const path = join(folder, name);
    writeFileSync(path, content);
    for (const flags of [
      [],
      ['-nopreview'],
      ['-no204'],
      ['-nopreview', '-no204'],
      ['-w', '10'],
      ['-w', '0', '-no204'],
    ]) {
      for (const way of ['-req', '-resp']) {
        const out = join(folder, 'out');
        rmSync(out, { force: true });
        const said = await run([...to, '-v', ...flags, way, 'http://example.org/x.bin', '-f', path, '-o', out]);
        const what = `${name} ${way} ${flags.join(' ')}`;
        const written = existsSync(out) ? readFileSync(out) : null;
        if (name === 'eicar') {
          t.match(said, /X-Infection-Found: Type=0; Resolution=2; Threat=Sluice\.Test\.EICAR/, what);
          t.match(said, /HTTP\/1\.1 403 Forbidden/, what);
          t.match(written?.toString(), 'Blocked: malware was found', what);
        } else if (said.includes('ICAP/1.0 204')) t.pass(`${what}: 204`);
        else t.ok(/ICAP\/1\.0 200 OK/.test(said) && written?.equals(content), `${what}: sent back`);
        if (flags.length === 0 && name !== 'eicar') t.match(said, 'ICAP/1.0 204', what);
      }
    }
  }
});
