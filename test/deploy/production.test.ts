// docs/production.md on a machine made of this one's own files: every command of the page is run, and what it promises is there.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t from 'tap';

const run = promisify(execFile);
const script = new URL('../../../test/machines/production.sh', import.meta.url).pathname;
const page = readFileSync(new URL('../../../docs/production.md', import.meta.url), 'utf8');
/** What needs the network, or a repository to fetch from. */
const LEFT_OUT = /^(?:apt-get update|git clone .*|git pull)$/;
const noRoot: string | false = process.getuid?.() === 0 ? false : 'Only root can make a machine of this one';

t.test('every command of the page, from a bare machine to an upgrade', { skip: noRoot }, async (t) => {
  const { stdout, stderr } = await run(script, { maxBuffer: 16 * 1024 * 1024 });
  t.equal(stdout.trimEnd().split('\n').at(-1), 'production: well', stderr.slice(-2_000));
  const said = new Set(stderr.split('\n'));
  const commands = [...page.matchAll(/^ {4}(.+)$/gm)].map(([, command = '']) => command);
  t.ok(commands.length > 60);
  t.strictSame(
    commands.filter((command) => !LEFT_OUT.test(command) && ![...said].some((line) => line.startsWith(command))),
    [],
    'each was read by the shell',
  );
  t.equal(commands.filter((command) => LEFT_OUT.test(command)).length, 3);
});
