// docs/errors.md has every reason of a 503, as the table in the code has it.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { unavailableTable } from '../../src/errors.js';

t.test('the reasons of a 503 are those of the code', async (t) => {
  const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
  const documented = [...page.matchAll(/^\| `(\w+)` \| (.+) \| (\d+) \|$/gm)].map((match) => match.slice(1));
  const inCode = Object.entries(unavailableTable).map(([name, row]) => [name, row.text, String(row.retryAfterSeconds)]);
  t.strictSame(documented, inCode);
});
