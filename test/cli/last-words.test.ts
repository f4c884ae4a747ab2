// A mistake that nobody handles: the log says what and where before the process ends, whatever was thrown.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

const program = join(import.meta.dirname, 'last-words-run.js');

for (const [kind, event] of [
  ['rejection', 'unhandled rejection'],
  ['exception', 'uncaught exception'],
] as const) {
  t.test(`an error that is an ${event} is logged with the line that it comes from`, async (t) => {
    const { status, stdout } = spawnSync(process.execPath, [program, kind], { encoding: 'utf8' });
    t.equal(status, 70);
    const line: unknown = JSON.parse(stdout);
    t.match(line, {
      level: 60,
      msg: event,
      err: { type: 'TypeError', message: 'a bug', stack: /theMistake \(.*last-words-run\.js:\d+/ },
    });
  });

  t.test(`another value that is an ${event} is logged with what it is`, async (t) => {
    const { status, stdout } = spawnSync(process.execPath, [program, kind, 'value'], { encoding: 'utf8' });
    t.equal(status, 70);
    t.match(JSON.parse(stdout), { msg: event, err: { message: "Not an error was thrown: { why: 'nobody knows' }" } });
  });
}
