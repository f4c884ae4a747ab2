// A file is a subject and a function fits a screen: how many lines each may have. And no type has the name of another one.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';

const FILE_LINES_MAX = 450;
const FUNCTION_LINES_MAX = 70;

const root = fileURLToPath(new URL('../../../src', import.meta.url));
const native = fileURLToPath(new URL('../../../native', import.meta.url));

interface Sized {
  readonly what: string;
  readonly lines: number;
  readonly most: number;
}

function sizesOf(path: string): Sized[] {
  const text = readFileSync(join(root, path), 'utf8');
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line + 1;
  const found: Sized[] = [{ what: path, lines: lineOf(source.end) - 1, most: FILE_LINES_MAX }];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node)) {
      const name = node.name?.getText(source) ?? nameOfPlace(node, source);
      const lines = lineOf(node.end) - lineOf(node.getStart(source)) + 1;
      found.push({ what: `${path} ${name}`, lines, most: FUNCTION_LINES_MAX });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Of a function without a name: what it is given to. */
function nameOfPlace({ parent }: ts.Node, source: ts.SourceFile): string {
  if (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent)) return parent.name.getText(source);
  return 'a function';
}

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => /\.tsx?$/.test(path));
const tooLong = files.flatMap(sizesOf).filter(({ lines, most }) => lines > most);

t.test('files and functions are short', async (t) => {
  t.ok(files.length > 100);
  for (const { what, lines, most } of tooLong) t.fail(`${what} has ${lines} lines, ${most} are the most`);
});

t.test('a name of a type means one thing', async (t) => {
  const placesOf = new Map<string, string[]>();
  for (const path of files.filter((one) => !one.startsWith('dashboard'))) {
    const text = readFileSync(join(root, path), 'utf8');
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    for (const one of source.statements) {
      const isType = ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one) || ts.isClassDeclaration(one);
      const name = isType ? one.name?.text : undefined;
      if (name !== undefined) placesOf.set(name, [...(placesOf.get(name) ?? []), path]);
    }
  }
  t.ok(placesOf.size > 500);
  t.same(
    [...placesOf].filter(([, places]) => places.length > 1),
    [],
  );
});

t.test('files of native are short', async (t) => {
  const sources = readdirSync(native).filter((path) => /\.(cc|h)$/.test(path));
  t.ok(sources.length > 50);
  for (const path of sources) {
    const lines = readFileSync(join(native, path), 'utf8').split('\n').length - 1;
    if (lines > FILE_LINES_MAX) t.fail(`${path} has ${lines} lines, ${FILE_LINES_MAX} are the most`);
  }
});
