// The OpenAPI document as tools take it: linters have nothing to say, and a client that is made from it compiles only when it is used rightly, and works.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import SwaggerParser from '@apidevtools/swagger-parser';
import { createClient } from '@hey-api/openapi-ts';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import openapiTS, { astToString } from 'openapi-typescript';
import t, { type Test } from 'tap';
import ts from 'typescript';
import { z } from 'zod';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';

const server = await startServer({ t, env: { BASE_URL: 'https://scan.sluice.test' } });
const source = await (await fetch(`${server.url}/openapi.json`)).text();
const Document = z.looseObject({
  servers: z.array(z.looseObject({ url: z.string() })),
  paths: z.record(
    z.string(),
    z.record(z.string(), z.looseObject({ operationId: z.string(), tags: z.array(z.string()) })),
  ),
  tags: z.array(z.looseObject({ name: z.string() })),
});

/** Beside the recommended ones. */
const rules = {
  'no-invalid-media-type-examples': 'error',
  'no-invalid-parameter-examples': 'error',
  'no-invalid-schema-examples': 'error',
  'no-unused-components': 'error',
  'operation-description': 'error',
  'operation-singular-tag': 'error',
  'operation-tag-defined': 'error',
  'parameter-description': 'error',
  'path-not-include-query': 'error',
  'tag-description': 'error',
} as const;

t.test('linters have nothing to say', async (t) => {
  const config = await createConfig({ extends: ['recommended'], rules });
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
  for (const [path, { get, head }] of Object.entries(paths)) {
    if (head !== undefined || (get !== undefined && path.startsWith('/api/')))
      t.equal(head?.operationId, headOf(get?.operationId), path);
  }
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

function headOf(id = ''): string {
  return `head${id.slice(0, 1).toUpperCase()}${id.slice(1)}`;
}

/** Where `node_modules` of this project is found from. */
const folder = mkdtempSync(join(fileURLToPath(new URL('.', import.meta.url)), 'generated-'));
writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
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
  "client.POST('/api/v1/scans', { body: { file: new Blob(), url: 'https://example.com/' } })",
  "client.POST('/api/v1/scans', { body: { metadata: 'neither' } })",
  "client.GET('/api/v1/scans', { params: { query: { verdict: 'maybe' } } })",
  "client.GET('/api/v1/scans/{id}', {})",
  "client.GET('/api/v1/nothing')",
];

/** Of each program, what is wrong with it. One look at all of them: a compiler takes seconds to begin. */
function compile(names: readonly string[]): string[][] {
  const paths = names.map((name) => join(folder, name));
  const compiler = ts.createProgram(paths, {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  });
  return paths.map((path) =>
    ts
      .getPreEmitDiagnostics(compiler, compiler.getSourceFile(path))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ')),
  );
}

/** The program compiles, and each mistake with its imports doesn't. */
function compiles(t: Test, name: string, text: string, mistakes: readonly string[], before = ''): void {
  const head = text.slice(0, text.indexOf('export'));
  const wrong = mistakes.map((_, index) => `${name}-mistake-${index}.ts`);
  writeFileSync(join(folder, `${name}.ts`), text);
  for (const [index, mistake] of mistakes.entries()) {
    writeFileSync(join(folder, wrong[index] ?? ''), `${head}${before}\nvoid ${mistake};\n`);
  }
  const [right, ...problems] = compile([`${name}.ts`, ...wrong]);
  t.strictSame(right, [], `${name} compiles`);
  for (const [index, mistake] of mistakes.entries()) t.ok(problems[index]?.length, mistake);
}

function transpile(path: string): void {
  const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
  const { outputText } = ts.transpileModule(readFileSync(join(folder, path), 'utf8'), { compilerOptions });
  writeFileSync(join(folder, path.replace(/ts$/, 'js')), outputText);
}

async function runOf(name: string): Promise<unknown> {
  // The compiler has kept this process for seconds: that the server has closed idle connections is seen in the next turn.
  await setImmediate();
  await setImmediate();
  const { run } = await import(pathToFileURL(join(folder, name)).href);
  return await run(server.url, API_KEY, Uint8Array.from(eicar()));
}

/** The same program, by functions with the operations' names. */
const sdkProgram = `
import { getAccount, getScan, listScans, scan, type Scan, type ScanResult } from './sdk/index.js';
import { createClient } from './sdk/client/index.js';

export async function run(baseUrl: string, key: string, content: Uint8Array<ArrayBuffer>) {
  const client = createClient({ baseUrl, auth: key });
  const file = new File([content], 'a "b".com');
  const scanned = await scan({ client, body: { file, metadata: 'order 8' } });
  const result: ScanResult | undefined = scanned.data === undefined || 'state' in scanned.data ? undefined : scanned.data;
  const id = scanned.response?.headers.get('X-Scan-Id') ?? '';
  const { data: known } = await getScan({ client, path: { id } });
  const { data: page } = await listScans({ client, query: { verdict: 'infected', limit: 1 } });
  const scans: Scan[] = page?.content ?? [];
  const { data: account } = await getAccount({ client });
  const refused = await scan({ client, body: { url: 'http://127.0.0.1/' } });
  return { result, known, scans, account, error: refused.error };
}
`;

const sdkMistakes = [
  'scan({ body: {} })',
  "scan({ body: { file: 'a path' } })",
  "scan({ body: { file: new Blob(), url: 'https://example.com/' } })",
  "listScans({ query: { verdict: 'maybe' } })",
  'getScan({})',
];

t.test('a client of @hey-api/openapi-ts', async (t) => {
  await createClient({
    input: JSON.parse(source),
    output: join(folder, 'sdk'),
    plugins: ['@hey-api/typescript', '@hey-api/sdk', '@hey-api/client-fetch'],
    // As docs/api.md says: of the bodies that an operation takes it knows one, and would take JSON.
    parser: {
      patch: {
        operations: {
          'POST /api/v1/scans': (operation) => {
            if (!('requestBody' in operation) || operation.requestBody === undefined) return;
            if ('content' in operation.requestBody) delete operation.requestBody.content['application/json'];
          },
        },
      },
    },
    logs: { level: 'silent', file: false },
  });
  compiles(t, 'sdk-client', sdkProgram, sdkMistakes);
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (path.startsWith('sdk') && path.endsWith('.ts')) transpile(path);
  }
  t.match(await runOf('sdk-client.js'), {
    result: { filename: 'a "b".com', infected: true },
    known: { detectedType: 'CL_TYPE_TEXT_ASCII', key: { name: String } },
    scans: [{ infected: true, metadata: 'order 8' }],
    account: { plan: 'BUSINESS' },
    error: { error: 'Scan failed', message: /^URL rejected: / },
  });
});

t.test('a client of openapi-typescript and openapi-fetch', async (t) => {
  const blob = ts.factory.createTypeReferenceNode('Blob');
  const types = await openapiTS(JSON.parse(source), {
    transform: (schema) => (schema.format === 'binary' ? blob : undefined),
  });
  writeFileSync(join(folder, 'schema.ts'), astToString(types));
  compiles(t, 'client', program, mistakes, 'const client = createClient<paths>();');
  transpile('client.ts');
  t.match(await runOf('client.js'), {
    result: { filename: 'a "b".com', infected: true },
    id: /^[0-9a-f-]{36}$/,
    name: String,
    scans: [{ infected: true, metadata: 'order 7' }],
    known: { current: true, infected: true },
    account: { plan: 'BUSINESS' },
    error: { error: 'Scan failed', message: /^URL rejected: / },
  });
});
