// From an exchange to the route that serves it: the table walked, failures turned into answers, surprises into a 500 without detail.
import { Failure } from '../errors.js';
import type { Exchange, Reply } from './exchange.js';
import { failureReply } from './failure.js';
import type { Operation } from './openapi.js';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** For the OpenAPI document. */
  readonly operation: Operation;
  handle(exchange: Exchange): Reply | Promise<Reply>;
}

/** Answers every exchange; `onSurprise` is told of errors that no row of the table foresees. */
export function createRouter(
  routes: readonly Route[],
  onSurprise: (exchange: Exchange, error: unknown) => void,
): (exchange: Exchange) => void {
  const byPath = new Map<string, Map<string, Route>>();
  for (const route of routes) {
    const methods = byPath.get(route.path) ?? new Map<string, Route>();
    byPath.set(route.path, methods.set(route.method, route));
  }

  function find({ method, path }: Exchange): Route {
    const methods = byPath.get(path);
    if (methods === undefined) throw new Failure('notFound', path);
    const route = methods.get(method === 'HEAD' ? 'GET' : method);
    if (route === undefined) throw new Failure('methodNotAllowed', allowed(methods));
    return route;
  }

  async function serve(exchange: Exchange): Promise<Reply> {
    if (exchange.problem !== null) throw new Failure('badFraming', exchange.problem);
    return await find(exchange).handle(exchange);
  }

  return (exchange) => {
    serve(exchange).then(
      (reply) => exchange.reply(reply),
      (error: unknown) => exchange.reply(answerTo(exchange, error)),
    );
  };

  function answerTo(exchange: Exchange, error: unknown): Reply {
    if (error instanceof Failure) {
      return failureReply(error, error.code === 'methodNotAllowed' ? { Allow: error.detail } : {});
    }
    if (!exchange.signal.aborted) onSurprise(exchange, error);
    return failureReply(new Failure('internal', exchange.requestId));
  }
}

function allowed(methods: ReadonlyMap<string, Route>): string {
  const names = [...methods.keys()];
  if (methods.has('GET')) names.push('HEAD');
  return names.sort().join(', ');
}
