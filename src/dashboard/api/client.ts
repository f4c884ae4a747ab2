// Requests to the dashboard API: with the cookie, renewed where needed, answers checked, failures as Problem.
import type { z } from 'zod/mini';
import { deadline, READ_MS } from './deadline.ts';
import { noAnswer, Problem, problemOf, SessionEnded } from './problem.ts';
import { endSession, keepFresh, renewAfterRefusal } from './session.ts';
import { Nothing } from './shapes.ts';

const GONE = 404;

export interface Ask<T> {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly shape: z.ZodMiniType<T>;
  readonly signal?: AbortSignal;
}

/** A request of somebody who is signed in. Rejects with Problem, or SessionEnded when the way leads to the sign-in. */
export async function ask<T>(request: Ask<T>): Promise<T> {
  await keepFresh();
  const first = await send(request);
  if (!isRefusal(first)) return await read(first, request);
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

async function send<T>({ method = 'GET', path, body, signal }: Ask<T>): Promise<Response> {
  // What changes something may have done so: nobody gives it up but who sees that it takes long.
  const until = method === 'GET' ? deadline(READ_MS, signal) : signal;
  return await answered(
    fetch(path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
      ...(until === undefined ? {} : { signal: until }),
    }),
    signal,
  );
}

/** `signal`: of who asks, and has no need of the answer any more. */
async function answered<T>(answer: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw noAnswer();
  }
}

async function read<T>(response: Response, { shape, signal }: Ask<T>): Promise<T> {
  const text = await answered(response.text(), signal);
  if (!response.ok) throw failureOf(response, text);
  return shape.parse(text === '' ? null : JSON.parse(text));
}

function failureOf({ status, headers }: Response, text: string): Problem {
  return problemOf(status, text, headers.get('retry-after'));
}
