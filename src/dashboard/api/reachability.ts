// Whether the server can be reached: known from requests that got no answer, and asked again until there is one.
import { deadline } from './deadline.ts';

/** For an answer that says nothing more than that, in milliseconds. */
const ANSWER_MS = 10_000;
/** Between two questions, in milliseconds. */
const ASK_MS = 3_000;
/** In a hidden tab, whose uploads go on; it also asks when it is looked at again. */
const ASK_HIDDEN_MS = 15_000;

let isLost = false;
let timer: number | undefined;
const watchers = new Set<() => void>();

export function watchReachability(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function isUnreachable(): boolean {
  return isLost;
}

/** A request got no answer. */
export function noteNoAnswer(): void {
  if (isLost) return;
  change(true);
  askLater();
}

function change(lost: boolean): void {
  isLost = lost;
  for (const watcher of watchers) watcher();
}

function askLater(): void {
  window.clearTimeout(timer);
  timer = window.setTimeout(ask, document.hidden ? ASK_HIDDEN_MS : ASK_MS);
}

async function ask(): Promise<void> {
  window.clearTimeout(timer);
  if (await isThere()) change(false);
  else askLater();
}

/** Asks it now. */
export async function isThere(): Promise<boolean> {
  // A proxy in front answers with these while the server is away.
  return await fetch('/livez', { cache: 'no-store', signal: deadline(ANSWER_MS) }).then(
    ({ status }) => !isProxysOwn(status),
    () => false,
  );
}

/** Resolves when the server answers: at once where it does. */
export async function untilReachable(): Promise<void> {
  if (!isLost && (await isThere())) return;
  noteNoAnswer();
  await new Promise<void>((resolve) => {
    const end = watchReachability(() => {
      if (isLost) return;
      end();
      resolve();
    });
  });
}

/** Said by a proxy that found no server. */
export function isProxysOwn(status: number): boolean {
  return status === 502 || status === 504;
}

document.addEventListener('visibilitychange', () => {
  if (isLost && !document.hidden) void ask();
});
