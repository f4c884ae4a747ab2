// A module of ours with counters in it: each function counts its entries, and each place that makes a closure counts those.
import ts from 'typescript';

/** Names of the counters; the first `functions` of them are of functions, the others of the places that make closures. */
export interface Instrumented {
  readonly source: string;
  readonly functions: readonly string[];
}

interface Insertion {
  readonly at: number;
  readonly text: string;
}

/** `name`: of the module, which its counters are kept under. */
export function instrument(name: string, text: string): Instrumented {
  const source = text.replace(/^#!.*/, '');
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const insertions: Insertion[] = [];
  const functions: string[] = [];
  const insert = (at: number, text: string): void => void insertions.push({ at, text });

  function enter(body: ts.ConciseBody, owner: ts.Node): string {
    const declared = ts.isBlock(body) ? body.statements.filter(ts.isFunctionDeclaration).length : 0;
    const { line } = file.getLineAndCharacterOfPosition(owner.getStart(file));
    functions.push(`${nameOf(owner)}:${line + 1}`);
    const count = `__own[${functions.length - 1}]++;`;
    return declared === 0 ? count : `${count}__made.count+=${declared};`;
  }

  function visit(node: ts.Node): void {
    const made = closuresOf(node);
    if (made > 0) insert(node.getStart(file), `(__made.count+=${made},`);
    const body = bodyOf(node);
    if (body !== null) {
      if (ts.isBlock(body)) insert(body.getStart(file) + 1, enter(body, node));
      else insert(body.getStart(file), `{${enter(body, node)}return (`);
    }
    ts.forEachChild(node, visit);
    if (body !== null && !ts.isBlock(body)) insert(body.getEnd(), ');}');
    if (made > 0) insert(node.getEnd(), ')');
  }

  visit(file);
  const head = `const {own:__own,made:__made}=globalThis.sluiceCounting.of(${JSON.stringify(name)},${JSON.stringify(functions)});`;
  return { source: head + applied(source, insertions), functions };
}

/** Of one place the insertions stay in their order. */
function applied(source: string, insertions: readonly Insertion[]): string {
  const ordered = insertions
    .map((insertion, order) => ({ ...insertion, order }))
    .sort((one, other) => one.at - other.at || one.order - other.order);
  let text = '';
  let from = 0;
  for (const { at, text: inserted } of ordered) {
    text += source.slice(from, at) + inserted;
    from = at;
  }
  return text + source.slice(from);
}

function bodyOf(node: ts.Node): ts.ConciseBody | null {
  if (ts.isFunctionExpression(node) || ts.isArrowFunction(node)) return node.body;
  if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) return node.body ?? null;
  return ts.isConstructorDeclaration(node) || ts.isAccessor(node) ? (node.body ?? null) : null;
}

/** Methods of a literal are closures as well, made whenever it is. Functions that are declared in others count where these begin. */
function closuresOf(node: ts.Node): number {
  if (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) return 1;
  if (!ts.isObjectLiteralExpression(node)) return 0;
  return node.properties.filter((one) => ts.isMethodDeclaration(one) || ts.isAccessor(one)).length;
}

function nameOf(node: ts.Node): string {
  if (ts.isConstructorDeclaration(node)) return 'constructor';
  if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isAccessor(node)) {
    return node.name?.getText() ?? 'anonymous';
  }
  const { parent } = node;
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent.name.getText() : 'anonymous';
}
