// The table of environment variables against the configuration that reads them.
import t from 'tap';
import { environmentHelp } from '../../src/cli/output.js';
import { readConfig } from '../../src/config/config.js';
import { environment } from '../../src/config/variables.js';

t.test('a documented default is the one that is used', async (t) => {
  const defaults = Object.fromEntries(environment.map((variable) => [variable.name, variable.default ?? undefined]));
  t.same(readConfig(defaults), readConfig({}));
});

t.test('the help names every variable with its default, on lines that fit a terminal', async (t) => {
  const lines = environmentHelp().split('\n');
  for (const { name, default: value } of environment) {
    t.ok(lines.includes(value === null ? `  ${name}` : `  ${name}=${value}`), name);
  }
  for (const line of lines) t.ok(line.length <= 100, line);
});

t.test('the help of another command names only what it reads', async (t) => {
  t.match(environmentHelp(['SCAN_THREADS']), 'SCAN_THREADS');
  t.notMatch(environmentHelp(['SCAN_THREADS']), 'PORT');
});
