// What a process says before it ends by its own mistake: a rejection or an exception that nobody handles, and where it came from.
import { inspect } from 'node:util';
import type { Log } from '../log.js';

/** Frames of each error: ten are used up inside a library before the line of ours that called it. */
const STACK_FRAMES = 30;

/** Logs it and calls `end` for what can't go on: nobody knows what state it leaves. */
export function sayLastWords(log: Pick<Log, 'fatal'>, end: () => void): void {
  Error.stackTraceLimit = STACK_FRAMES;
  const die = (event: string) => (thrown: unknown) => {
    log.fatal({ err: asError(thrown) }, event);
    end();
  };
  process.on('uncaughtException', die('uncaught exception'));
  process.on('unhandledRejection', die('unhandled rejection'));
}

/** Anything can be thrown, and only an error says where; of another value at least what it is. */
function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(`Not an error was thrown: ${inspect(thrown, { depth: 2 })}`);
}
