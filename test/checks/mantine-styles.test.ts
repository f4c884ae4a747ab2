// The web client takes only those styles of Mantine that it uses: none of a component that it shows may be missing.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import t from 'tap';

const root = new URL('../../../', import.meta.url);
const IMPORT = /import \{([^}]*)\} from '@mantine\/core'/g;

t.test('every component of Mantine that is used has its styles', async (t) => {
  const styles = readFileSync(new URL('src/dashboard/mantine.css', root), 'utf8');
  const used = new Set<string>();
  const client = new URL('src/dashboard/', root);
  for (const path of readdirSync(client, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.tsx'),
  )) {
    for (const [, names = ''] of readFileSync(new URL(path, client), 'utf8').matchAll(IMPORT)) {
      for (const name of names.split(',')) used.add(name.replace(/^\s*type\s/, '').trim());
    }
  }
  t.ok(used.has('Button'));
  for (const name of used) {
    const file = `@mantine/core/styles/${name}.css`;
    if (existsSync(new URL(`node_modules/${file}`, root))) t.match(styles, `@import "${file}";`);
  }
});
