// Starts the processes that look, one for each engine, and passes them numbers of contents.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { LookerOrder, Range } from './looker.js';

export interface Looker {
  /** What it says of each content. */
  look(range: Range): Promise<string[]>;
  end(): Promise<void>;
}

/** Resolves when its engine is loaded. */
export async function startLooker(order: LookerOrder): Promise<Looker> {
  const path = fileURLToPath(new URL('./looker.js', import.meta.url));
  const child = fork(path, [JSON.stringify(order)]);
  const exited = once(child, 'exit');
  const ended = exited.then(([code, signal]) => {
    throw new Error(`an engine's process ended with ${code ?? signal}`);
  });
  // It is seen where somebody waits for an answer.
  ended.catch(() => undefined);
  const answer = async (): Promise<unknown> => {
    const [message]: unknown[] = await Promise.race([once(child, 'message'), ended]);
    return message;
  };
  await answer();
  return {
    async look(range) {
      child.send(range);
      return verdictsIn(await answer());
    },
    async end() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

function verdictsIn(message: unknown): string[] {
  const verdicts: unknown =
    typeof message === 'object' && message !== null ? Reflect.get(message, 'verdicts') : undefined;
  if (!Array.isArray(verdicts)) throw new Error('an engine answered something else');
  return verdicts.map(String);
}
