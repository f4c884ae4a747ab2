// Whether the server can be reached: known from requests that got no answer, and asked again until there is one.

/** Between two questions, in milliseconds. A hidden tab asks when it is looked at again. */
const ASK_MS = 3_000;

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
  timer = window.setTimeout(ask, ASK_MS);
}

async function ask(): Promise<void> {
  window.clearTimeout(timer);
  if (document.hidden) return;
  // A proxy in front answers with these while the server is away.
  const isThere = await fetch('/livez', { cache: 'no-store' }).then(
    ({ status }) => !isProxysOwn(status),
    () => false,
  );
  if (isThere) change(false);
  else askLater();
}

/** Said by a proxy that found no server. */
export function isProxysOwn(status: number): boolean {
  return status === 502 || status === 504;
}

document.addEventListener('visibilitychange', () => {
  if (isLost && !document.hidden) void ask();
});
