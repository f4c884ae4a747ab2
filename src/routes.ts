// Every endpoint as one table: method, path, what the OpenAPI document says of it, and who serves it.
import type { Confinement } from './engine/addon.js';
import { describeEngine, type ServingEngine } from './engine/build.js';
import { dailyBuiltAt } from './engine/databases.js';
import type { ReloadState, SignatureState } from './engine/signatures.js';
import type { HistoryState } from './history/history.js';
import type { Reply } from './http/exchange.js';
import { jsonReply } from './http/json.js';
import { type Operation, openApiDocument } from './http/openapi.js';
import type { Route } from './http/router.js';

export interface RouteParts {
  /** What the rooms serve: scans, accounts, billing. */
  readonly served: readonly Route[];
  readonly signatures: () => SignatureState;
  readonly history: () => HistoryState;
  /** Null: it answers; otherwise what is wrong with it. */
  readonly storeProblem: () => Promise<string | null>;
  /** Null: keys and quota are served as they should be; otherwise why Postgres stands in. */
  readonly admissionProblem: () => string | null;
  readonly version: string;
  /** What confines the scan threads; null: nothing does. */
  readonly sandbox: Confinement | null;
}

export function createRoutes(parts: RouteParts): Route[] {
  const routes: Route[] = [
    ...parts.served,
    {
      method: 'GET',
      path: '/livez',
      operation: operation('Whether the process answers', { 200: 'It does.' }),
      handle: () => jsonReply(200, { status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      operation: operation('Whether scans are served, part by part', {
        200: 'They are.',
        503: 'They are not: the body says which part is missing and why.',
      }),
      handle: () => readiness(parts),
    },
    {
      method: 'GET',
      path: '/version',
      operation: operation('Versions of the service, the engine and the signatures', { 200: 'The versions.' }),
      handle: () => jsonReply(200, versions(parts)),
    },
    {
      method: 'GET',
      path: '/openapi.json',
      operation: operation('This document', { 200: 'OpenAPI 3.1.' }),
      handle: () => document,
    },
  ];
  const document = jsonReply(200, openApiDocument(routes, parts.version));
  return routes;
}

/** An operation that anybody may ask for and that has no input. */
function operation(summary: string, responses: Readonly<Record<number, string>>): Operation {
  return {
    summary,
    tag: 'operations',
    who: 'anybody',
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, description]) => [
        status,
        { description, content: { 'application/json': { schema: { type: 'object' } } } },
      ]),
    ),
    errors: [],
  };
}

async function readiness({ signatures, history, storeProblem, admissionProblem }: RouteParts): Promise<Reply> {
  const engine = signatures();
  const problem = await storeProblem();
  const journal = history();
  const ready = engine.kind === 'ready' && !scansWait(engine.reload) && problem === null && journal.problem === null;
  const body = {
    status: ready ? 'ready' : 'unavailable',
    engine: describeState(engine),
    admission: describeAdmission(admissionProblem()),
    store: problem === null ? { status: 'ready' } : { status: 'failed', message: problem },
    history: describeJournal(journal),
  };
  return ready ? jsonReply(200, body) : jsonReply(503, body, { 'Retry-After': '5' });
}

/** Scans are served all the same: it doesn't make the service unready. */
function describeAdmission(problem: string | null): Record<string, string> {
  return problem === null ? { status: 'ready' } : { status: 'degraded', message: problem };
}

function describeJournal({ rows, bytes, oldestAgeMs, damagedFiles, problem }: HistoryState): Record<string, unknown> {
  const waiting = { waitingRows: rows, waitingBytes: bytes, oldestAgeMs, damagedFiles };
  return problem === null ? { status: 'ready', ...waiting } : { status: 'failed', message: problem, ...waiting };
}

function describeState(state: SignatureState): Record<string, unknown> {
  switch (state.kind) {
    case 'loading':
      return { status: 'loading', percent: Math.round(state.progress * 100) };
    case 'failed':
      return { status: 'failed', message: state.message };
    case 'ready':
      return {
        status: scansWait(state.reload) ? 'reloading' : state.info.standsInFor === null ? 'ready' : 'degraded',
        ...(state.info.standsInFor === null ? {} : { message: state.info.standsInFor }),
        signatures: state.info.signatureCount,
        epoch: state.info.epoch,
        engine: state.info.name,
        ...ages(state.info),
        rules: describeRules(state.info),
        reload: describeReload(state.reload),
      };
  }
}

/** YARA rules that look at every content; which files were refused and why is in the log and in `signatures status`. */
function describeRules({ rules }: ServingEngine): Record<string, unknown> | null {
  if (rules === null) return null;
  const refused = rules.files.filter(({ errors }) => errors.length > 0).length;
  return { engine: `yara-x/${rules.engineVersion}`, count: rules.ruleCount, refusedFiles: refused };
}

/** They are taken and queued, but somebody else would answer sooner. */
function scansWait(reload: ReloadState): boolean {
  return reload.kind === 'running' && reload.scansWait;
}

function describeReload(reload: ReloadState): Record<string, unknown> {
  switch (reload.kind) {
    case 'none':
      return { status: 'none' };
    case 'running':
      return { status: 'running', percent: Math.round(reload.progress * 100) };
    case 'failed':
      return { status: 'failed', message: reload.message, at: localTime(reload.failedAt) };
  }
}

/** `dailyAgeHours`: of the newest official daily database; null without one, because other files carry no build time. */
function ages(info: ServingEngine): Record<string, unknown> {
  const dailyAt = dailyBuiltAt(info.files);
  const dailyAgeHours = dailyAt === null ? null : Math.max(0, Math.floor((Date.now() / 1000 - dailyAt) / 3600));
  return { version: info.signatureVersion, built: localTime(info.signaturesBuiltAt), dailyAgeHours };
}

function localTime(epochSeconds: number): string {
  return new Date(epochSeconds * 1000).toISOString().slice(0, 19);
}

function versions({ version, sandbox, signatures }: RouteParts): Record<string, unknown> {
  const state = signatures();
  const always = { sluice: version, node: process.versions.node, sandbox: sandbox ?? 'off' };
  if (state.kind !== 'ready') return { ...always, engine: null, signatures: null };
  return {
    ...always,
    // Only ClamAV's scans are confined.
    ...(state.info.name === 'clamav' ? {} : { sandbox: 'off' }),
    engine: describeEngine(state.info),
    standsIn: state.info.standsInFor !== null,
    signatures: { count: state.info.signatureCount, ...ages(state.info) },
    rules: describeRules(state.info),
  };
}
