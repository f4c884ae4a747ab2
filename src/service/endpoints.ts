// Every endpoint as one table: method, path, what the OpenAPI document says of it, and who serves it; and the pages of the dashboard and the documentation, files that
// the build made, served from memory under a strict policy.
import { basename } from 'node:path';
import { z } from 'zod';
import type { Engine, ReloadState, SignatureState } from '../engine/engine.js';
import { standings } from '../engine/folders.js';
import { codeOf } from '../error-text.js';
import { Failure } from '../errors.js';
import type { HistoryState } from '../history/history.js';
import type { Exchange } from '../http/exchange.js';
import { jsonReply } from '../http/json.js';
import { jsonAnswer, type Operation, openApiDocument, retryAfter } from '../http/openapi.js';
import { type PathParameters, type Route, route } from '../http/router.js';
import { fileReply, readStaticFiles, type StaticFile } from '../http/static-files.js';
import type { Reply } from '../http/wire.js';
import type { AcceptedState } from '../scan/pending/accepted-scans.js';
import type { Postgres } from '../store/postgres.js';
import type { OutboxLook } from '../webhooks/deliveries.js';
import { DAY_MS, WireTime, wireDay, wireTime } from '../wire-text.js';
import type { Parts } from './parts.js';

interface RouteParts
  extends Pick<
    Parts,
    'signatures' | 'pool' | 'standing' | 'history' | 'postgres' | 'admission' | 'version' | 'library' | 'sandbox'
  > {
  /** What the rooms serve: scans, accounts, billing. */
  readonly served: readonly Route[];
  /** The process has scanned for itself: no client waits for what only the first scans cost. */
  readonly isWarm: () => boolean;
  readonly accepted: () => AcceptedState;
  readonly outbox: OutboxLook;
  /** Where clients reach the service; null: nobody has said. */
  readonly baseUrl: string | null;
  /** Folders of this machine, of which anybody who asks for the readiness learns the last part of a path alone. */
  readonly folders: readonly string[];
  /** Where a vulnerability of this service is reported, as a URI; null: nothing is said of it. */
  readonly securityContact: string | null;
}

export function createRoutes(parts: RouteParts): Route[] {
  let document: Reply | undefined;
  const routes: Route[] = [
    ...parts.served,
    route('GET /livez', operation('Whether the process answers', Liveness, { 200: 'It does.' }), () =>
      jsonReply(200, { status: 'ok' }),
    ),
    route(
      'GET /readyz',
      operation('Whether scans are served, part by part', Readiness, {
        200: 'They are.',
        503: 'They are not: the body says which part is missing and why.',
      }),
      () => readiness(parts),
    ),
    route(
      'GET /version',
      operation('Versions of the service, the engine and the signatures', Versions, { 200: 'The versions.' }),
      () => jsonReply(200, versions(parts)),
    ),
    route('GET /openapi.json', operation('This document', OpenApiView, { 200: 'OpenAPI 3.1.' }), () => {
      document ??= jsonReply(200, openApiDocument(routes, parts));
      return document;
    }),
    ...(parts.securityContact === null ? [] : [securityRoute(parts.securityContact)]),
  ];
  return routes;
}

/** An operation that anybody may ask for and that has no input. */
function operation(summary: string, answer: z.ZodType, responses: Readonly<Record<number, string>>): Operation {
  return {
    summary,
    tag: 'operations',
    who: 'anybody',
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, description]) => {
        const described = jsonAnswer(description, answer);
        return [status, status === '503' ? { ...described, headers: retryAfter } : described];
      }),
    ),
    errors: [],
  };
}

/** RFC 9116, which wants a time of less than a year after which nobody relies on it. */
const CONTACT_DAYS = 180;

function securityRoute(contact: string): Route {
  return {
    name: 'GET /.well-known/security.txt',
    operation: {
      summary: 'Where a vulnerability of this service is reported (RFC 9116)',
      tag: 'operations',
      who: 'anybody',
      responses: {
        200: { description: 'Contact and expiry.', content: { 'text/plain': { schema: { type: 'string' } } } },
      },
      errors: [],
    },
    handle() {
      const expires = wireDay(Date.now() + CONTACT_DAYS * DAY_MS);
      const body = `Contact: ${contact}\nExpires: ${expires}T00:00:00Z\n`;
      return { status: 200, body, contentType: 'text/plain; charset=utf-8' };
    },
  };
}

/** Of each path the last part: what it is called, and not where this machine has it. */
export function withoutPaths(text: string, folders: readonly string[]): string {
  // Known ones first: there may be blanks in them.
  const known = folders.toSorted((one, other) => other.length - one.length);
  const shown = known.reduce(
    (left, folder) => left.replaceAll(`${folder}/`, '').replaceAll(folder, basename(folder)),
    text,
  );
  return shown.replace(/(?<![\w:./-])\/(?:[^\s/:;,()'"]+\/)*([^\s/:;,()'"]*)/g, '$1');
}

async function readiness(parts: RouteParts): Promise<Reply> {
  const { signatures, isWarm, folders } = parts;
  const hide = <Part extends { message?: string | undefined }>(part: Part): Part =>
    part.message === undefined ? part : { ...part, message: withoutPaths(part.message, folders) };
  const state = signatures.state();
  const unable = parts.pool.problem;
  const engine =
    state.kind === 'ready' && isWarm() && unable !== null ? ({ kind: 'failed', message: unable } as const) : state;
  const problem = await problemOf(parts.postgres);
  const journal = parts.history.state();
  const degraded = parts.admission.problem();
  const isServing = engine.kind === 'ready' && isWarm();
  const ready = isServing && problem === null && journal.problem === null;
  const body: Readiness = {
    status: ready ? 'ready' : 'unavailable',
    engine:
      engine.kind === 'ready' && !isWarm() ? { status: 'loading', percent: 100 } : hide(describeState(engine, hide)),
    signatures: state.kind === 'ready' ? parts.standing(state.engine) : null,
    // While it is degraded scans are served as well: it doesn't make the service unready.
    admission: degraded === null ? { status: 'ready' } : hide({ status: 'degraded', message: degraded }),
    store: problem === null ? { status: 'ready' } : hide({ status: 'failed', message: problem }),
    history: hide(describeJournal(journal)),
    accepted: parts.accepted(),
    webhooks: await parts.outbox(),
  };
  return ready ? jsonReply(200, body) : jsonReply(503, body, { 'Retry-After': '5' });
}

function describeJournal({ rows, bytes, oldestAgeMs, damagedFiles, problem }: HistoryState): Readiness['history'] {
  const waiting = { waitingRows: rows, waitingBytes: bytes, oldestAgeMs, damagedFiles };
  return problem === null ? { status: 'ready', ...waiting } : { status: 'failed', message: problem, ...waiting };
}

type Reload = NonNullable<Readiness['engine']['reload']>;

function describeState(state: SignatureState, hide: (reload: Reload) => Reload): Readiness['engine'] {
  switch (state.kind) {
    case 'loading':
      return { status: 'loading', percent: Math.round(state.progress * 100) };
    case 'failed':
      return { status: 'failed', message: state.message };
    case 'ready': {
      const { standsInFor } = state.engine;
      return {
        ...(standsInFor === null ? { status: 'ready' } : { status: 'degraded', message: standsInFor.reason }),
        signatures: state.engine.signatureCount,
        epoch: state.engine.epoch,
        engine: state.engine.name,
        ...ages(state.engine),
        rules: state.engine.rules,
        reload: hide(describeReload(state.reload)),
      };
    }
  }
}

function describeReload(reload: ReloadState): Reload {
  switch (reload.kind) {
    case 'none':
      return { status: 'none' };
    case 'running':
      return { status: 'running', percent: Math.round(reload.progress * 100) };
    case 'failed':
      return { status: 'failed', message: reload.message, at: wireTime(reload.failedAt * 1000) };
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
  return {
    version,
    built: signaturesBuiltAt === null ? null : wireTime(signaturesBuiltAt * 1000),
    dailyAgeHours,
  };
}

function versions({ version, library, sandbox, signatures }: RouteParts): Versions {
  const state = signatures.state();
  const always: Pick<Versions, 'sluice' | 'node' | 'http' | 'sandbox'> = {
    sluice: version,
    node: process.versions.node,
    http: library.title,
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

const count = z.int().min(0);
const reason = z.string().optional().describe('Why it is not `ready`.');

const OpenApiView = z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApiDocument' });

const Liveness = z.object({ status: z.literal('ok') }).meta({ id: 'Liveness' });

const Rules = z.object({ engine: z.string(), count, refusedFiles: count }).nullable().describe('YARA rules beside it.');

const ageFields = {
  version: z.string().nullable(),
  built: WireTime.nullable().describe(
    'Of the newest official database, or of the newest file that says it; null: none does.',
  ),
  dailyAgeHours: count.nullable().describe('Of the newest official daily database; null without one.'),
};

const Reload = z.object({
  status: z.enum(['none', 'running', 'failed']),
  percent: count.optional(),
  message: z.string().optional(),
  at: WireTime.optional(),
});

export type Readiness = z.infer<typeof Readiness>;
export const Readiness = z
  .object({
    status: z.enum(['ready', 'unavailable']),
    engine: z.object({
      status: z.enum(['loading', 'failed', 'ready', 'degraded']),
      message: reason,
      percent: count.optional().describe('With `loading`.'),
      signatures: count.optional(),
      epoch: count.optional(),
      engine: z.string().optional(),
      version: ageFields.version.optional(),
      built: ageFields.built.optional(),
      dailyAgeHours: ageFields.dailyAgeHours.optional(),
      rules: Rules.optional(),
      reload: Reload.optional(),
    }),
    signatures: z
      .enum(standings)
      .nullable()
      .describe(
        "`starter`: only the few that ship with Sluice; `current`, `old`: ClamAV's daily database is younger than a day, or not; `other`: others; null: none serve.",
      ),
    admission: z.object({ status: z.enum(['ready', 'degraded']), message: reason }),
    store: z.object({ status: z.enum(['ready', 'failed']), message: reason }),
    history: z.object({
      status: z.enum(['ready', 'failed']),
      message: reason,
      waitingRows: count,
      waitingBytes: count,
      oldestAgeMs: z.number().nullable(),
      damagedFiles: count,
    }),
    accepted: z
      .object({ waiting: count, bytes: count, oldestAgeMs: z.number() })
      .describe(
        'Scans that this process has accepted with 202 and that have not ended, and their contents on its disk.',
      ),
    webhooks: z
      .object({ waiting: count, overdueMs: z.number() })
      .nullable()
      .describe(
        'Deliveries that wait, of all nodes, and how long the oldest is due whose receiver takes what it is sent; null: the database does not answer.',
      ),
  })
  .meta({ id: 'Readiness' });

export type Versions = z.infer<typeof Versions>;
export const Versions = z
  .object({
    sluice: z.string(),
    node: z.string(),
    http: z.string().describe('The HTTP library that serves.'),
    sandbox: z
      .union([z.literal('off'), z.object({ seccomp: z.boolean(), landlock: z.int().nullable() })])
      .describe('What confines the scan threads.'),
    engine: z.string().nullable().describe('Null until one serves, as are the signatures.'),
    standsIn: z.boolean().optional(),
    signatures: z.object({ count, ...ageFields }).nullable(),
    rules: Rules.optional(),
  })
  .meta({ id: 'Versions' });

/** Null when it answers. Anybody may read this: the driver's own words hold addresses. */
export async function problemOf(postgres: Postgres): Promise<string | null> {
  try {
    await postgres.ping();
    return null;
  } catch (error) {
    return `The database does not answer (${codeOf(error) ?? 'no code'})`;
  }
}

/** Addresses that the client knows by itself: each is answered with the one page. */
export const pagePaths: readonly string[] = [
  '/',
  '/sign-in',
  '/register',
  '/reset',
  '/scan',
  '/history',
  '/keys',
  '/webhooks',
  '/billing',
  '/account',
  '/admin',
  '/admin/accounts',
  '/admin/activity',
  '/admin/audit',
  '/docs',
  '/docs/reference',
];
/** Guides beside the reference, by the names of their files in docs/, where operators and developers have other pages. */
export const guides: readonly string[] = [
  'quick-start',
  'errors',
  'url-scans',
  'quotas',
  'webhooks',
  'billing-webhooks',
];

/** Nothing inline and nothing from elsewhere. Pictures inside of style sheets are `data:`. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Below these there are no pages: what asks for them is a program, whatever it accepts. */
const NO_PAGES = /^\/(?:api|web|assets)\//;
const WITHOUT_CONDITIONS: ReadonlyMap<string, string> = new Map();

/** The one document. */
const PAGE = 'index.html';
const pageHeaders = {
  'Content-Security-Policy': POLICY,
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Cache-Control': 'no-cache',
};
/** Their names have a hash of their content. */
const assetHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable' };

export type Pages = ReturnType<typeof openPages>;

/** Throws when the build has not made the pages. */
export function openPages(directory: string) {
  const files = readStaticFiles(directory, (path) => (path === PAGE ? pageHeaders : assetHeaders));
  const page = files.get(PAGE);
  if (page === undefined) throw new Error(`${directory} has no ${PAGE}: run \`node build.mjs\``);
  const byPath = new Map<string, StaticFile>();
  for (const path of [...pagePaths, ...guides.map((guide) => `/docs/${guide}`)]) byPath.set(path, page);
  const routes = [...byPath].map(([path, file]) => pageRoute(path, () => file));
  routes.push(pageRoute('/assets/{name}', ({ name = '' }) => files.get(`assets/${name}`) ?? null));
  // The client finds the scan, or the webhook.
  routes.push(
    pageRoute('/scans/{id}', () => page),
    pageRoute('/webhooks/{id}', () => page),
  );
  return {
    routes,
    /** What a browser is shown that looks for a page which there is not, with a 404; null: it is no browser, or no page. */
    strayPage({ method, path, headers }: Exchange): Reply | null {
      const isPage = method === 'GET' && !NO_PAGES.test(path) && /\btext\/html\b/.test(headers.get('accept') ?? '');
      return isPage ? { ...fileReply(page, WITHOUT_CONDITIONS), status: 404 } : null;
    },
  };
}

function pageRoute(path: string, fileOf: (parameters: PathParameters) => StaticFile | null): Route {
  return route(`GET ${path}`, null, (exchange, parameters) => {
    const file = fileOf(parameters);
    if (file === null) throw new Failure('notFound', exchange.path);
    return fileReply(file, exchange.headers);
  });
}
