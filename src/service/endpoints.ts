// Every endpoint as one table: method, path, what the OpenAPI document says of it, and who serves it.
import { z } from 'zod';
import type { Engine } from '../engine/engine.js';
import type { ReloadState, SignatureState } from '../engine/signature-state.js';
import type { Confinement } from '../engine/threads/sandbox.js';
import type { HistoryState } from '../history/history.js';
import type { Reply } from '../http/exchange.js';
import { jsonReply } from '../http/json.js';
import { type Operation, openApiDocument } from '../http/openapi.js';
import type { Route } from '../http/router.js';
import { jsonAnswer } from '../http/schema.js';
import { wireTime } from '../wire-time.js';
import { Liveness, Readiness, Versions } from './health.js';

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
  /** What serves HTTP, with its version. */
  readonly httpServer: string;
  /** What confines the scan threads; null: nothing does. */
  readonly sandbox: Confinement | null;
}

export function createRoutes(parts: RouteParts): Route[] {
  const routes: Route[] = [
    ...parts.served,
    {
      method: 'GET',
      path: '/livez',
      operation: operation('Whether the process answers', Liveness, { 200: 'It does.' }),
      handle: () => jsonReply(200, { status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      operation: operation('Whether scans are served, part by part', Readiness, {
        200: 'They are.',
        503: 'They are not: the body says which part is missing and why.',
      }),
      handle: () => readiness(parts),
    },
    {
      method: 'GET',
      path: '/version',
      operation: operation('Versions of the service, the engine and the signatures', Versions, {
        200: 'The versions.',
      }),
      handle: () => jsonReply(200, versions(parts)),
    },
    {
      method: 'GET',
      path: '/openapi.json',
      operation: operation('This document', z.looseObject({ openapi: z.string() }), { 200: 'OpenAPI 3.1.' }),
      handle: () => document,
    },
  ];
  const document = jsonReply(200, openApiDocument(routes, parts.version));
  return routes;
}

/** An operation that anybody may ask for and that has no input. */
function operation(summary: string, answer: z.ZodType, responses: Readonly<Record<number, string>>): Operation {
  return {
    summary,
    tag: 'operations',
    who: 'anybody',
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, description]) => [status, jsonAnswer(description, answer)]),
    ),
    errors: [],
  };
}

async function readiness({ signatures, history, storeProblem, admissionProblem }: RouteParts): Promise<Reply> {
  const engine = signatures();
  const problem = await storeProblem();
  const journal = history();
  const ready = engine.kind === 'ready' && problem === null && journal.problem === null;
  const body: Readiness = {
    status: ready ? 'ready' : 'unavailable',
    engine: describeState(engine),
    admission: describeAdmission(admissionProblem()),
    store: problem === null ? { status: 'ready' } : { status: 'failed', message: problem },
    history: describeJournal(journal),
  };
  return ready ? jsonReply(200, body) : jsonReply(503, body, { 'Retry-After': '5' });
}

/** While it is degraded scans are served as well: it doesn't make the service unready. */
function describeAdmission(problem: string | null): Readiness['admission'] {
  return problem === null ? { status: 'ready' } : { status: 'degraded', message: problem };
}

function describeJournal({ rows, bytes, oldestAgeMs, damagedFiles, problem }: HistoryState): Readiness['history'] {
  const waiting = { waitingRows: rows, waitingBytes: bytes, oldestAgeMs, damagedFiles };
  return problem === null ? { status: 'ready', ...waiting } : { status: 'failed', message: problem, ...waiting };
}

function describeState(state: SignatureState): Readiness['engine'] {
  switch (state.kind) {
    case 'loading':
      return { status: 'loading', percent: Math.round(state.progress * 100) };
    case 'failed':
      return { status: 'failed', message: state.message };
    case 'ready':
      return {
        ...describeChoice(state.engine),
        signatures: state.engine.signatureCount,
        epoch: state.engine.epoch,
        engine: state.engine.name,
        ...ages(state.engine),
        rules: state.engine.rules,
        reload: describeReload(state.reload),
      };
  }
}

function describeChoice({ standsInFor }: Engine): Pick<Readiness['engine'], 'status' | 'message'> {
  return standsInFor === null ? { status: 'ready' } : { status: 'degraded', message: standsInFor.reason };
}

function describeReload(reload: ReloadState): NonNullable<Readiness['engine']['reload']> {
  switch (reload.kind) {
    case 'none':
      return { status: 'none' };
    case 'running':
      return { status: 'running', percent: Math.round(reload.progress * 100) };
    case 'failed':
      return { status: 'failed', message: reload.message, at: wireTime(new Date(reload.failedAt * 1000)) };
  }
}

/** `dailyAgeHours`: of the newest official daily database; null without one, because other files carry no build time. */
function ages({
  signatureVersion: version,
  signaturesBuiltAt,
  dailyBuiltAt,
}: Engine): Pick<NonNullable<Versions['signatures']>, 'version' | 'built' | 'dailyAgeHours'> {
  const dailyAgeHours =
    dailyBuiltAt === null ? null : Math.max(0, Math.floor((Date.now() / 1000 - dailyBuiltAt) / 3600));
  return { version, built: wireTime(new Date(signaturesBuiltAt * 1000)), dailyAgeHours };
}

function versions({ version, httpServer, sandbox, signatures }: RouteParts): Versions {
  const state = signatures();
  const always: Pick<Versions, 'sluice' | 'node' | 'http' | 'sandbox'> = {
    sluice: version,
    node: process.versions.node,
    http: httpServer,
    sandbox: sandbox ?? 'off',
  };
  if (state.kind !== 'ready') return { ...always, engine: null, signatures: null };
  return {
    ...always,
    ...(state.engine.isConfined ? {} : { sandbox: 'off' }),
    engine: state.engine.description,
    standsIn: state.engine.standsInFor !== null,
    signatures: { count: state.engine.signatureCount, ...ages(state.engine) },
    rules: state.engine.rules,
  };
}
