// Prints the functions of src/ that are longer than a screen. It is no error: some loop or state machine reads better in one piece.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const LINES_MAX = 80;

const root = fileURLToPath(new URL('../../../', import.meta.url));

interface Long {
  readonly lines: number;
  readonly place: string;
}

function longFunctionsOf(path: string): Long[] {
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line + 1;
  const found: Long[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node)) {
      const start = lineOf(node.getStart(source));
      const lines = lineOf(node.end) - start + 1;
      const name = node.name?.getText(source) ?? 'a function';
      if (lines > LINES_MAX) found.push({ lines, place: `${relative(root, path)}:${start} ${name}` });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((path) =>
  /\.tsx?$/.test(path),
);
const long = files.flatMap((path) => longFunctionsOf(join(root, 'src', path))).sort((a, b) => b.lines - a.lines);
for (const { lines, place } of long) process.stdout.write(`${lines} lines: ${place}\n`);
process.stdout.write(`${long.length} functions of src/ have more than ${LINES_MAX} lines\n`);
