// Every endpoint as one table: method, path, what the OpenAPI document says of it, and who serves it.
import type { SignatureState } from './engine/signatures.js';
import type { Exchange, Reply } from './http/exchange.js';
import type { Route } from './http/router.js';
import { describeEngine } from './scan/route.js';

export interface RouteParts {
  readonly scan: (exchange: Exchange) => Promise<Reply>;
  readonly signatures: () => SignatureState;
  /** Null: it answers; otherwise what is wrong with it. */
  readonly storeProblem: () => Promise<string | null>;
  readonly version: string;
}

export function createRoutes(parts: RouteParts): Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/scans',
      operation: { summary: 'Scan an uploaded file', tags: ['scans'] },
      handle: parts.scan,
    },
    {
      method: 'GET',
      path: '/livez',
      operation: { summary: 'Whether the process answers', tags: ['operations'] },
      handle: () => ({ status: 200, body: JSON.stringify({ status: 'ok' }) }),
    },
    {
      method: 'GET',
      path: '/readyz',
      operation: { summary: 'Whether scans are served, part by part', tags: ['operations'] },
      handle: () => readiness(parts),
    },
    {
      method: 'GET',
      path: '/version',
      operation: { summary: 'Versions of the service, the engine and the signatures', tags: ['operations'] },
      handle: () => ({ status: 200, body: JSON.stringify(versions(parts)) }),
    },
  ];
}

async function readiness({ signatures, storeProblem }: RouteParts): Promise<Reply> {
  const engine = signatures();
  const problem = await storeProblem();
  const ready = engine.kind === 'ready' && problem === null;
  const body = {
    status: ready ? 'ready' : 'unavailable',
    engine: describeState(engine),
    store: problem === null ? { status: 'ready' } : { status: 'failed', message: problem },
  };
  const headers = ready ? {} : { 'Retry-After': '5' };
  return { status: ready ? 200 : 503, headers, body: JSON.stringify(body) };
}

function describeState(state: SignatureState): Record<string, unknown> {
  switch (state.kind) {
    case 'loading':
      return { status: 'loading', percent: Math.round(state.progress * 100) };
    case 'failed':
      return { status: 'failed', message: state.message };
    case 'ready':
      return { status: 'ready', signatures: state.info.signatureCount };
  }
}

function versions({ version, signatures }: RouteParts): Record<string, unknown> {
  const state = signatures();
  return {
    sluice: version,
    node: process.versions.node,
    engine: state.kind === 'ready' ? describeEngine(state.info) : null,
    signatures:
      state.kind === 'ready'
        ? {
            version: state.info.signatureVersion,
            count: state.info.signatureCount,
            built: new Date(state.info.signaturesBuiltAt * 1000).toISOString().slice(0, 19),
          }
        : null,
  };
}
