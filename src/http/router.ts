// From an exchange to the route that serves it: the table walked, failures turned into answers, surprises into a 500 without detail.
import { Failure } from '../errors.js';
import type { Exchange } from './exchange.js';
import type { Operation } from './openapi.js';
import { failureReply, type Reply, Surprise } from './wire.js';

/** Values of the `{name}` segments of a path, percent-decoded. */
export type PathParameters = Readonly<Record<string, string>>;
const NO_PARAMETERS: PathParameters = {};

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** `POST /web/keys/{uuid}`, as log and metrics call a route. The path is as in OpenAPI; a parameter is one whole, non-empty segment. */
export type RouteName = `${Method} ${string}`;

export interface Route {
  readonly name: RouteName;
  /** For the OpenAPI document; null: it isn't part of the API. */
  readonly operation: Operation | null;
  /** Null: it answers the exchange by itself, after this call. */
  handle(exchange: Exchange, parameters: PathParameters): Answered | Promise<Answered>;
}

/** Null: not by the router. */
export type Answered = Reply | null;

export function route(name: RouteName, operation: Operation | null, handle: Route['handle']): Route {
  return { name, operation, handle };
}

/** What is said of a path that is not there. */
interface Strays {
  /** Only callers who pass this check are answered that a path is not found, or not with this method. For others it throws a Failure. */
  readonly gate?: { readonly prefix: string; check(exchange: Exchange): Promise<unknown> };
  /** For browsers, a page; null: the failure. */
  readonly page?: (exchange: Exchange) => Reply | null;
}

/** Answers every exchange; `onSurprise` gets errors that no row of the table foresees. */
export function createRouter(
  routes: readonly Route[],
  onSurprise: (exchange: Exchange, error: unknown) => void,
  { gate, page }: Strays = {},
): (exchange: Exchange) => void {
  const find = createFinder(routes);

  function serve(exchange: Exchange): Answered | Promise<Answered> {
    if (exchange.problem !== null) throw new Failure('badFraming', exchange.problem);
    const found = find(exchange);
    if (found instanceof Failure) return refuse(exchange, found);
    const { route, parameters } = found;
    exchange.route = route.name;
    const isLater = exchange.query === '' || route.operation?.who === 'user';
    const unknown = isLater ? null : unknownQuery(route.operation, exchange.query);
    return unknown === null ? route.handle(exchange, parameters) : refuse(exchange, unknown);
  }

  async function refuse(exchange: Exchange, failure: Failure): Promise<Reply> {
    if (gate !== undefined && exchange.path.startsWith(gate.prefix)) await gate.check(exchange);
    const shown = failure.code === 'notFound' ? page?.(exchange) : null;
    if (shown) return shown;
    throw failure;
  }

  return (exchange) => {
    let answered: Answered | Promise<Answered>;
    try {
      answered = serve(exchange);
    } catch (error) {
      answered = Promise.reject(error);
    }
    if (answered === null) return;
    // What is there at once waits as well: nothing is answered before the HTTP library has handed the request over.
    Promise.resolve(answered).then(
      (reply) => {
        if (reply !== null) exchange.reply(reply);
      },
      (error: unknown) => exchange.reply(answerTo(exchange, error)),
    );
  };

  function answerTo(exchange: Exchange, error: unknown): Reply {
    if (error instanceof Failure) {
      return failureReply(error, error.code === 'methodNotAllowed' ? { Allow: error.detail } : {});
    }
    const { cause, headers } = error instanceof Surprise ? error : { cause: error, headers: {} };
    if (!exchange.isGone()) onSurprise(exchange, cause);
    return failureReply(new Failure('internal', exchange.requestId), headers);
  }
}

/**
 * A query where the route has none. Null: there is none, the route reads it by itself, or it belongs to a page, whose program may have one. Of routes
 * behind the sign-in it is asked when the caller is known.
 */
export function unknownQuery(operation: Pick<Operation, 'parameters'> | null, query: string): Failure | null {
  if (query === '' || operation === null || operation.parameters?.some((parameter) => parameter['in'] === 'query')) {
    return null;
  }
  const names = [...new URLSearchParams(query).keys()];
  return names.length === 0 ? null : new Failure('badRequest', `unknown: ${names.join(', ')}`);
}

interface Template {
  readonly segments: readonly string[];
  readonly methods: Map<string, Route>;
}

interface Found {
  readonly route: Route;
  readonly parameters: PathParameters;
}

/** Finds the route of a request; else Failure `notFound` or `methodNotAllowed`. A path without parameters goes first. */
function createFinder(routes: readonly Route[]): (exchange: Exchange) => Found | Failure {
  const exact = new Map<string, Map<string, Route>>();
  const templates = new Map<string, Template>();
  for (const route of routes) {
    const [method = '', path = ''] = route.name.split(' ');
    const methods = exact.get(path) ?? new Map<string, Route>();
    exact.set(path, methods.set(method, route));
    if (path.includes('{')) templates.set(path, { segments: path.split('/'), methods });
  }

  function inTemplates(path: string): { methods: Map<string, Route>; parameters: PathParameters } | null {
    const sent = path.split('/');
    for (const template of templates.values()) {
      const parameters = match(template.segments, sent);
      if (parameters !== null) return { methods: template.methods, parameters };
    }
    return null;
  }

  return ({ method, path }) => {
    let methods = exact.get(path);
    let parameters = NO_PARAMETERS;
    if (methods === undefined || templates.has(path)) {
      const known = inTemplates(path);
      if (known === null) return new Failure('notFound', path);
      ({ methods, parameters } = known);
    }
    const route = methods.get(method === 'HEAD' ? 'GET' : method);
    return route === undefined ? new Failure('methodNotAllowed', allowed(methods)) : { route, parameters };
  };
}

/** The parameters when the path has the template's shape, otherwise null. */
function match(template: readonly string[], sent: readonly string[]): PathParameters | null {
  if (template.length !== sent.length) return null;
  const parameters: Record<string, string> = {};
  for (const [index, segment] of template.entries()) {
    const value = sent[index] ?? '';
    const name = /^\{(.+)\}$/.exec(segment)?.[1];
    if (name === undefined) {
      if (segment !== value) return null;
      continue;
    }
    const decoded = decode(value);
    if (decoded === null || decoded === '') return null;
    parameters[name] = decoded;
  }
  return parameters;
}

function decode(segment: string): string | null {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not percent-encoded UTF-8: no resource has such a name.
    return null;
  }
}

function allowed(methods: ReadonlyMap<string, unknown>): string {
  const names = [...methods.keys()];
  if (methods.has('GET')) names.push('HEAD');
  return names.sort().join(', ');
}
