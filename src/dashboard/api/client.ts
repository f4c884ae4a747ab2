// Requests to the dashboard API: with the cookie, renewed where needed, answers checked, failures as Problem.
import type { z } from 'zod/mini';
import { CHANGE_MS, deadline, READ_MS } from './deadline.ts';
import { noAnswer, outcomeUnknown, Problem, problemOf, SessionEnded } from './problem.ts';
import { isThere, isUnreachable } from './reachability.ts';
import { endSession, keepFresh, noteTaken, renewAfterRefusal } from './session.ts';
import { Nothing } from './shapes.ts';

const GONE = 404;

export interface Ask<T> {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly shape: z.ZodMiniType<T>;
  readonly signal?: AbortSignal;
  /** It changes nothing that counts, or the same again changes nothing more. */
  readonly isHarmless?: boolean;
}

/** A request of somebody who is signed in. Rejects with Problem, or SessionEnded when the way leads to the sign-in. */
export async function ask<T>(request: Ask<T>): Promise<T> {
  await keepFresh();
  const first = await send(request);
  if (!isRefusal(first)) {
    noteTaken();
    return await read(first, request);
  }
  await renewAfterRefusal();
  const second = await send(request);
  if (!isRefusal(second)) return await read(second, request);
  endSession();
  throw new SessionEnded();
}

/** Ends what has that path. That it has ended is no failure: somebody was faster, or the answer of the first try was lost. */
export async function end(path: string): Promise<void> {
  await ask({ method: 'DELETE', path, shape: Nothing }).catch((error: unknown) => {
    if (!(error instanceof Problem && error.status === GONE)) throw error;
  });
}

/** A request that anybody may make. */
export async function askOpenly<T>(request: Ask<T>): Promise<T> {
  return await read(await send(request), request);
}

export function isRefusal({ status }: { readonly status: number }): boolean {
  return status === 401;
}

/** Reading is harmless by itself. */
function isChange<T>({ method = 'GET', isHarmless = false }: Ask<T>): boolean {
  return method !== 'GET' && !isHarmless;
}

async function send<T>(request: Ask<T>): Promise<Response> {
  const { method = 'GET', path, body, signal } = request;
  // It is not begun where nobody would hear of its end.
  if (isChange(request) && isUnreachable() && !(await isThere())) throw noAnswer();
  const answer = fetch(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    signal: deadline(method === 'GET' ? READ_MS : CHANGE_MS, signal),
  });
  return await answered(answer, request);
}

/** `signal`: of who asks, and has no need of the answer any more. */
async function answered<T, A>(answer: Promise<A>, request: Ask<T>): Promise<A> {
  try {
    return await answer;
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw unanswered(request);
  }
}

function unanswered<T>(request: Ask<T>): Problem {
  return isChange(request) ? outcomeUnknown() : noAnswer();
}

async function read<T>(response: Response, request: Ask<T>): Promise<T> {
  const text = await answered(response.text(), request);
  if (!response.ok) {
    throw problemOf(response.status, text, response.headers.get('retry-after'), () => unanswered(request));
  }
  return request.shape.parse(text === '' ? null : JSON.parse(text));
}
