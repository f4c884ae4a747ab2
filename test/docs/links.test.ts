// The documents against the project: links and headings, files and commands that are named, variables and errors that must be there.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { environment } from '../../src/config/variables.js';
import { errorTable } from '../../src/errors.js';
import { guides } from '../../src/service/endpoints.js';
import { accountRows, fixedRows, signInRows, throttleRows } from './limits-table.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const README_LINES_MAX = 150;

const pages = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
const documents = [
  'README.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'bench/README.md',
  'signatures/README.md',
  ...pages.map((name) => `docs/${name}`),
];

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Without blocks of code that are fenced: a `#` in there is no heading. */
function withoutFences(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```$/gm, '');
}

/** The targets of links and pictures, but for those to elsewhere. */
function linksOf(path: string): string[] {
  const text = withoutFences(read(path)).replaceAll(/`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** The names that GitHub gives to headings. */
function anchorsOf(path: string): string[] {
  return [...withoutFences(read(path)).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-'),
  );
}

/** Where a link of that document leads to, from the root of the project. */
function targetOf(path: string, link: string): { readonly file: string; readonly anchor: string } {
  const [file = '', anchor = ''] = link.split('#');
  return { file: file === '' ? path : relative(root, resolve(root, dirname(path), file)), anchor };
}

t.test('every link leads to a file and a heading that are there', async (t) => {
  for (const path of documents) {
    for (const link of linksOf(path)) {
      const { file, anchor } = targetOf(path, link);
      const exists = existsSync(join(root, file));
      t.ok(exists, `${path}: ${link}`);
      if (exists && anchor !== '') t.ok(anchorsOf(file).includes(anchor), `${path}: ${link}`);
    }
  }
});

t.test('every page is linked from another one', async (t) => {
  const linked = new Set(
    documents.flatMap((path) =>
      linksOf(path)
        .map((link) => targetOf(path, link).file)
        .filter((file) => file !== path),
    ),
  );
  for (const page of pages) t.ok(linked.has(`docs/${page}`), page);
});

t.test('a guide leads to other guides only: the dashboard serves nothing else of docs/', async (t) => {
  for (const guide of guides) {
    const served = guides.map((name) => `${name}.md`);
    // Examples are put into the page.
    const links = linksOf(`docs/${guide}.md`).filter((link) => !link.startsWith('examples/'));
    for (const link of links) t.ok(served.includes(link), `${guide}: ${link}`);
  }
});

t.test('every file and command of the project that is named is there', async (t) => {
  const { scripts } = z.object({ scripts: z.record(z.string(), z.string()) }).parse(JSON.parse(read('package.json')));
  for (const path of documents) {
    const text = read(path);
    const named = [...text.matchAll(/`((?:src|test|bench|docs|native|signatures|\.ci)\/[\w./-]+)`/g)];
    for (const [, file = ''] of named) t.ok(existsSync(join(root, file)), `${path}: ${file}`);
    for (const [, program = ''] of text.matchAll(/\bnode dist\/([\w/-]+)\.js/g)) {
      t.ok(existsSync(join(root, `${program}.ts`)), `${path}: ${program}`);
    }
    for (const [, script = ''] of text.matchAll(/\bnpm run ([\w:-]+)/g)) t.ok(script in scripts, `${path}: ${script}`);
  }
});

t.test('every variable has its row, with its default and the text of --help', async (t) => {
  const lines = read('docs/operations.md').split('\n');
  for (const { name, default: value, about } of environment) {
    t.ok(lines.includes(`| \`${name}\` | ${value === null ? '' : `\`${value}\``} | ${about} |`), name);
  }
  const rows = lines.filter((line) => /^\| `[A-Z0-9_]+` \|/.test(line));
  t.equal(rows.length, environment.length, 'and no other');
});

t.test('every error has its row, and no row is of an error that there is not', async (t) => {
  const lines = read('docs/errors.md').split('\n');
  const beginnings = Object.values(errorTable).map(
    ({ status, error, message }) => `| ${status} | ${error} | ${message === null ? '' : `${message} `}| `,
  );
  for (const beginning of beginnings)
    t.ok(
      lines.some((line) => line.startsWith(beginning)),
      beginning,
    );
  const rows = lines.slice(lines.indexOf('## Which errors are there?')).filter((line) => /^\| \d/.test(line));
  for (const line of rows)
    t.ok(
      beginnings.some((beginning) => line.startsWith(beginning)),
      line,
    );
});

t.test('the table of limits is what the code says', async (t) => {
  const rows = read('docs/limits.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  t.strictSame(
    rows,
    [...accountRows(), ...signInRows(), ...throttleRows(), ...fixedRows()],
    'node dist/test/docs/limits-table.js > docs/limits.md',
  );
});

t.test('the README is one page', async (t) => {
  t.ok(read('README.md').split('\n').length <= README_LINES_MAX);
});
