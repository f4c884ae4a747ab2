// The OpenAPI document as tools take it: linters have nothing to say, and a client that is made from it compiles only when it is used rightly, and works.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import SwaggerParser from '@apidevtools/swagger-parser';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import openapiTS, { astToString } from 'openapi-typescript';
import t from 'tap';
import ts from 'typescript';
import { z } from 'zod';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';

const server = await startServer({ env: { BASE_URL: 'https://scan.sluice.test' } });
t.teardown(() => server.stop());
const source = await (await fetch(`${server.url}/openapi.json`)).text();
const Document = z.looseObject({
  servers: z.array(z.looseObject({ url: z.string() })),
  paths: z.record(
    z.string(),
    z.record(z.string(), z.looseObject({ operationId: z.string(), tags: z.array(z.string()) })),
  ),
  tags: z.array(z.looseObject({ name: z.string() })),
});

t.test('linters have nothing to say', async (t) => {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source, config });
  t.strictSame(
    problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
    [],
  );
  await t.resolves(SwaggerParser.validate(JSON.parse(source)));
});

t.test('operations have ids that differ, tags that are described, and a server', async (t) => {
  const { servers, paths, tags } = Document.parse(JSON.parse(source));
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  const ids = operations.map(({ operationId }) => operationId);
  t.equal(new Set(ids).size, ids.length);
  for (const id of ['scan', 'listScans', 'getScan', 'getFile', 'getAccount']) t.ok(ids.includes(id), id);
  for (const id of ids) t.match(id, /^[a-z][A-Za-z0-9]+$/);
  const known = new Set(tags.map(({ name }) => name));
  for (const { tags, operationId } of operations)
    t.ok(
      tags.every((tag) => known.has(tag)),
      operationId,
    );
  t.strictSame(
    servers.map(({ url }) => url),
    ['https://scan.sluice.test'],
  );
});

/** Where `node_modules` of this project is found from. */
const folder = mkdtempSync(join(fileURLToPath(new URL('.', import.meta.url)), 'generated-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const program = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.js';

export async function run(baseUrl: string, key: string, content: Uint8Array<ArrayBuffer>) {
  const client = createClient<paths>({ baseUrl, headers: { 'X-API-KEY': key } });
  const bodySerializer = (body: object): FormData => {
    const form = new FormData();
    for (const [name, value] of Object.entries(body)) form.append(name, value, ...(value instanceof Blob ? ['a "b".com'] : []));
    return form;
  };
  const file = new Blob([content]);
  const scanned = await client.POST('/api/v1/scans', { body: { file, metadata: 'order 7' }, bodySerializer });
  // With \`Prefer: respond-async\` the answer is a scan that has a state.
  const result: components['schemas']['ScanResult'] | undefined =
    scanned.data === undefined || 'state' in scanned.data ? undefined : scanned.data;
  const id = scanned.response.headers.get('X-Scan-Id') ?? '';
  const scan = await client.GET('/api/v1/scans/{id}', { params: { path: { id } } });
  const name: string | undefined = scan.data?.key?.name;
  const page = await client.GET('/api/v1/scans', { params: { query: { verdict: 'infected', limit: 1 } } });
  const scans: readonly components['schemas']['Scan'][] = page.data?.content ?? [];
  const known = await client.GET('/api/v1/files/{sha256}', { params: { path: { sha256: scan.data?.sha256 ?? '' } } });
  const account = await client.GET('/api/v1/account');
  const refused = await client.POST('/api/v1/scans', {
    body: { url: 'http://127.0.0.1/' },
    headers: { 'Content-Type': 'application/json' },
  });
  const error: components['schemas']['ApiError'] | undefined = refused.error;
  return { result, id, name, scans, known: known.data, account: account.data, error };
}
`;

/** Each must not compile. */
const mistakes = [
  "client.POST('/api/v1/scans', { body: {} })",
  "client.POST('/api/v1/scans', { body: { file: 1 } })",
  "client.GET('/api/v1/scans', { params: { query: { verdict: 'maybe' } } })",
  "client.GET('/api/v1/scans/{id}', {})",
  "client.GET('/api/v1/nothing')",
];

/** What is wrong with the program, one for each place. */
function compile(name: string): string[] {
  const path = join(folder, name);
  const compiler = ts.createProgram([path], {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  });
  return ts
    .getPreEmitDiagnostics(compiler)
    .filter(({ file }) => file?.fileName === path)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
}

t.test('a client of openapi-typescript and openapi-fetch', async (t) => {
  const blob = ts.factory.createTypeReferenceNode('Blob');
  const types = await openapiTS(JSON.parse(source), {
    transform: (schema) => (schema.format === 'binary' ? blob : undefined),
  });
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'schema.ts'), astToString(types));
  writeFileSync(join(folder, 'client.ts'), program);
  t.strictSame(compile('client.ts'), [], 'compiles');
  const head = program.slice(0, program.indexOf('export'));
  for (const [index, mistake] of mistakes.entries()) {
    const name = `mistake-${index}.ts`;
    writeFileSync(join(folder, name), `${head}const client = createClient<paths>();\nvoid ${mistake};\n`);
    t.ok(compile(name).length > 0, mistake);
  }
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  writeFileSync(join(folder, 'client.js'), ts.transpileModule(program, { compilerOptions }).outputText);
  const { run } = await import(pathToFileURL(join(folder, 'client.js')).href);
  const said: unknown = await run(server.url, API_KEY, Uint8Array.from(eicar()));
  t.match(said, {
    result: { filename: 'a "b".com', infected: true },
    id: /^[0-9a-f-]{36}$/,
    name: String,
    scans: [{ infected: true, metadata: 'order 7' }],
    known: { current: true, infected: true },
    account: { plan: 'BUSINESS' },
    error: { error: 'Scan failed', message: /^URL rejected: / },
  });
});
