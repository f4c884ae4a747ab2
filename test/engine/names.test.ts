// Engines are named in engine/ and in the table of variables. All other rooms read what an Engine says of itself.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import ts from 'typescript';
import { engineChoices } from '../../src/config/variables.js';

const sources = fileURLToPath(new URL('../../../src/', import.meta.url));
/** The values of ENGINE, which are also the beginnings of what X-Scan-Engine says. */
const choices: readonly string[] = engineChoices;
const names = choices.filter((choice) => choice !== 'auto');
const named = new RegExp(`^(lib)?(${names.join('|')})(-\\w+)?($|[/+;])`);

/** The texts of a source that are an engine's name, or begin with it, as `clamav/1.4.6` does. */
function engineNames(path: string, text: string): string[] {
  const found: string[] = [];
  const look = (node: ts.Node): void => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node);
    if (isText && named.test(node.text)) found.push(`${path}: ${node.text}`);
    ts.forEachChild(node, look);
  };
  look(ts.createSourceFile(path, text, ts.ScriptTarget.ESNext));
  return found;
}

t.test('what is looked for is found', async (t) => {
  t.ok(names.length > 1);
  const source = `if (name === 'clamav') say("yara-x/1"); // 'clamav'\nsay('ClamAV serves', 'clamavs');`;
  t.strictSame(engineNames('x', source), ['x: clamav', 'x: yara-x/1']);
});

t.test('no other room names an engine', async (t) => {
  const paths = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((path) => /\.tsx?$/.test(path));
  const others = paths.filter((path) => !path.startsWith('engine/') && path !== 'config/variables.ts');
  t.ok(paths.length > others.length + 10 && others.length > 100);
  for (const path of others) t.strictSame(engineNames(path, readFileSync(join(sources, path), 'utf8')), []);
});
