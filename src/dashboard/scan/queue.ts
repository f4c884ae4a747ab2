// Files and URLs that are to be scanned, a few at a time. When the service says to wait, the queue waits and goes on by itself. It lives as long as the page does.
import { newOnceKey } from '../api/once-key.ts';
import { Problem, SessionEnded } from '../api/problem.ts';
import { isUnreachable } from '../api/reachability.ts';
import { isSignedIn, signedInAs, watchSession } from '../api/session.ts';
import type { Quota } from '../api/shapes.ts';
import { type Content, type Scanned, scanContent } from '../api/upload.ts';
import { isUnreadable } from './dropped.ts';

export type ItemState =
  | { readonly kind: 'waiting' }
  | Moving
  /** Goes on by itself at that time, in epoch milliseconds of this machine's clock, which may be wrong. */
  | { readonly kind: 'paused'; readonly why: 'quota' | 'busy' | 'offline'; readonly untilMs: number }
  | { readonly kind: 'done'; readonly result: Scanned }
  | { readonly kind: 'failed'; readonly why: Failed }
  | { readonly kind: 'cancelled' };

/** `isStill`: nothing of it moves, though it should. */
type Moving =
  | { readonly kind: 'uploading'; readonly percent: number; readonly isStill?: boolean }
  | { readonly kind: 'scanning'; readonly isStill?: boolean };

type Paused = Extract<ItemState, { kind: 'paused' }>;

export type Failed =
  | { readonly kind: 'tooLarge'; readonly bytes: number }
  | { readonly kind: 'empty' | 'unreadable' | 'gaveUp' | 'strange' }
  | { readonly kind: 'incomplete' | 'refused'; readonly reason: string };

export interface Item {
  readonly id: number;
  readonly content: Content;
  /** The URL, where it is one. */
  readonly name: string;
  readonly state: ItemState;
}

export interface QueueEvents {
  readonly onQuota: (quota: Quota) => void;
  /** The item is done or has failed. */
  readonly onEnd: (item: Item) => void;
}

/** 10 MB, as the service counts them. */
export const LIMIT_BYTES = 10 * 1024 * 1024;
/** Uploads at once: enough to keep the line and the engine busy, few enough to leave others theirs. */
const AT_ONCE = 3;
const TRIES = 6;
/** Where nobody says how long to wait; doubled each time. */
const WAIT_FIRST_MS = 1_000;
const WAIT_MAX_MS = 30_000;
/** While the server is known to be away, which may take longer than all tries. */
const WAIT_OFFLINE_MS = 5_000;
/** Beyond what the service says to wait: an hour that has just begun here may not have begun there. */
const HOUR_MARGIN_MS = 1_500;
const INCOMPLETE = 422;
/** Browsers say several times a second what they have sent: what they have not said for so long, they have not sent. */
const CUT_MS = 1_000;
/** Why one that is under way is ended: somebody wants it begun anew. */
const AGAIN = new Error('Again');
const QUOTA_EXHAUSTED = 'Rate limit exceeded';

export interface Queue {
  items(): readonly Item[];
  subscribe(listener: () => void): () => void;
  add(files: readonly File[]): void;
  addUrl(url: string): void;
  /** Ends it; what has ended already leaves the list. */
  remove(id: number): void;
  /** What has ended, or doesn't move. */
  again(id: number): void;
  /** Goes on now with what waits for a time. */
  resume(): void;
  /** Goes on with what waits for the server to come back. */
  resumeOffline(): void;
  clearEnded(): void;
  /** Ends all of it: names of files are nobody's business who signs in next. */
  clear(): void;
  /** A file has not ended yet. */
  isBusy(): boolean;
  listen(events: QueueEvents): () => void;
}

export function isOver({ state }: Item): boolean {
  return ['done', 'failed', 'cancelled'].includes(state.kind);
}

function createQueue(): Queue {
  const list = createList();
  const uploads = createUploads(list, pump);
  let timer: number | undefined;
  /** Whose files these are; null: nobody has been signed in yet. */
  let owner = signedInAs();

  function clear(): void {
    uploads.cancelAll();
    list.clear();
  }

  watchSession(() => {
    const user = signedInAs();
    if (user === null) return;
    if (owner !== null && owner !== user) clear();
    owner = user;
    pump();
  });

  function pump(): void {
    window.clearTimeout(timer);
    // It goes on when somebody has signed in.
    if (!isSignedIn()) return;
    const now = Date.now();
    wake(list, ({ untilMs }) => untilMs <= now);
    const paused = list.items().flatMap(({ state }) => (state.kind === 'paused' ? [state] : []));
    if (paused.length > 0)
      timer = window.setTimeout(pump, Math.min(...paused.map(({ untilMs }) => untilMs - now)) + 10);
    // What one is refused for, the others would be refused for as well.
    if (!paused.some(({ why }) => why !== 'busy')) uploads.fill();
  }

  function resumeIf(isMeant: (state: Paused) => boolean): void {
    wake(list, isMeant);
    pump();
  }

  function add(contents: readonly Content[]): void {
    list.add(contents);
    pump();
  }

  return {
    items: list.items,
    subscribe: list.subscribe,
    add: (files) => add(files.map((file) => ({ kind: 'file', file }))),
    addUrl: (url) => add([{ kind: 'url', url }]),
    remove(id) {
      if (list.removeEnded(id)) return;
      list.setState(id, { kind: 'cancelled' });
      uploads.cancel(id);
      pump();
    },
    again(id) {
      uploads.begin(id);
      if (list.revive(id)) pump();
    },
    resume: () => resumeIf(() => true),
    resumeOffline: () => resumeIf(({ why }) => why === 'offline'),
    clearEnded: list.clearEnded,
    clear,
    isBusy: () => list.items().some((item) => !isOver(item)),
    listen(events) {
      const end = list.listen(events);
      pump();
      return end;
    },
  };
}

/** Those that are under way. `onEnd`: another one may begin. */
function createUploads(list: List, onEnd: () => void) {
  const tries = createTries();
  const keys = createKeys();
  const running = new Map<number, AbortController>();

  async function run({ id, content }: Item): Promise<void> {
    const abort = new AbortController();
    running.set(id, abort);
    let moving: Moving = content.kind === 'url' ? { kind: 'scanning' } : { kind: 'uploading', percent: 0 };
    const move = (state: Moving): void => {
      moving = state;
      list.setState(id, state);
    };
    move(moving);
    let movedAt = performance.now();
    const isCut = (): boolean => moving.kind === 'uploading' && performance.now() - movedAt > CUT_MS;
    const wasAway = isUnreachable();
    try {
      const result = await scanContent(content, {
        signal: abort.signal,
        once: keys.of(id),
        onProgress(sent, total) {
          movedAt = performance.now();
          move(stateAt(sent, total));
        },
        onStill: () => move({ ...moving, isStill: true }),
        onQuota: list.tellQuota,
      });
      keys.forget(id);
      list.setState(id, { kind: 'done', result });
    } catch (error) {
      // An answer is kept for its key, and who asks again wants another one. What was cut off is known to nobody; the server may wait long for the rest of it.
      if (isAboutContent(error) || isCut()) keys.forget(id);
      if (abort.signal.reason === AGAIN) list.setState(id, { kind: 'waiting' });
      else if (!abort.signal.aborted)
        list.setState(id, await stateAfter(error, content, () => (wasAway ? WAIT_OFFLINE_MS : tries.waitMs(id))));
    } finally {
      running.delete(id);
      onEnd();
    }
  }

  return {
    /** Begins with what waits, as far as there is room. */
    fill(): void {
      for (const item of list.items()) {
        if (running.size >= AT_ONCE) return;
        if (item.state.kind === 'waiting' && !running.has(item.id)) void run(item);
      }
    },
    cancel: (id: number): void => running.get(id)?.abort(new Error('Cancelled')),
    cancelAll(): void {
      for (const abort of running.values()) abort.abort(new Error('Cleared'));
    },
    /** From the beginning, also where it is under way. */
    begin(id: number): void {
      tries.forget(id);
      running.get(id)?.abort(AGAIN);
    },
  };
}

/** What was paused waits for its turn again. */
function wake(list: List, isMeant: (state: Paused) => boolean): void {
  for (const { id, state } of list.items()) {
    if (state.kind === 'paused' && isMeant(state)) list.setState(id, { kind: 'waiting' });
  }
}

type List = ReturnType<typeof createList>;

/** The items with their states, and those who hear of changes. */
function createList() {
  let items: readonly Item[] = [];
  let events: QueueEvents | null = null;
  let nextId = 1;
  const listeners = new Set<() => void>();

  function change(next: readonly Item[]): void {
    items = next;
    for (const listener of listeners) listener();
  }

  const put = (item: Item): void => change(items.map((each) => (each.id === item.id ? item : each)));
  const find = (id: number): Item | undefined => items.find((item) => item.id === id);

  return {
    items: (): readonly Item[] => items,
    subscribe(listener: () => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    listen(listener: QueueEvents): () => void {
      events = listener;
      return () => {
        if (events === listener) events = null;
      };
    },
    tellQuota: (quota: Quota): void => events?.onQuota(quota),
    /** Not of an item that is cancelled, whatever its upload still comes to. */
    setState(id: number, state: ItemState): void {
      const known = find(id);
      if (known === undefined || known.state.kind === 'cancelled') return;
      const item = { ...known, state };
      put(item);
      if (isOver(item) && state.kind !== 'cancelled') events?.onEnd(item);
    },
    add(contents: readonly Content[]): void {
      const added = contents.map((content): Item => {
        nextId += 1;
        const name = content.kind === 'file' ? content.file.name : content.url;
        return { id: nextId, content, name, state: firstState(content) };
      });
      change([...items, ...added]);
      for (const item of added) if (isOver(item)) events?.onEnd(item);
    },
    /** True: it had ended, or there was none. */
    removeEnded(id: number): boolean {
      const item = find(id);
      if (item === undefined) return true;
      if (!isOver(item)) return false;
      change(items.filter((each) => each.id !== id));
      return true;
    },
    /** One that has ended waits again. False: it has not, or there is none. */
    revive(id: number): boolean {
      const item = find(id);
      if (item === undefined || !isOver(item)) return false;
      put({ ...item, state: { kind: 'waiting' } });
      return true;
    },
    clearEnded: (): void => change(items.filter((item) => !isOver(item))),
    clear: (): void => change([]),
  };
}

/** How often each file was tried in vain, and what to wait before the next time. */
function createTries() {
  const tries = new Map<number, number>();
  return {
    /** After another failure, doubled each time; null: it was tried often enough. */
    waitMs(id: number): number | null {
      const count = (tries.get(id) ?? 0) + 1;
      tries.set(id, count);
      return count >= TRIES ? null : Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** (count - 1));
    },
    forget: (id: number): void => void tries.delete(id),
  };
}

/** The Idempotency-Key of each: with every try the same, until there is an answer. */
function createKeys() {
  const keys = new Map<number, string>();
  return {
    of(id: number): string {
      const known = keys.get(id);
      if (known !== undefined) return known;
      const key = newOnceKey();
      keys.set(id, key);
      return key;
    },
    forget: (id: number): void => void keys.delete(id),
  };
}

/** An answer of the service that is no passing one. */
function isAboutContent(error: unknown): boolean {
  return error instanceof Problem && [400, 409, INCOMPLETE].includes(error.status);
}

function stateAt(sent: number, total: number): Moving {
  if (sent >= total) return { kind: 'scanning' };
  return { kind: 'uploading', percent: Math.floor((100 * sent) / total) };
}

/** `nextWaitMs`: counts a failure that may pass. */
async function stateAfter(error: unknown, content: Content, nextWaitMs: () => number | null): Promise<ItemState> {
  // Signed in again, it goes on.
  if (error instanceof SessionEnded) return { kind: 'waiting' };
  // An answer that is none of the service's, such as a page of the network that wants a sign-in of its own.
  if (!(error instanceof Problem)) return { kind: 'failed', why: { kind: 'strange' } };
  const { status, message, retryAfterSeconds } = error;
  if (status === 429 && error.error === QUOTA_EXHAUSTED && retryAfterSeconds !== null) {
    return { kind: 'paused', why: 'quota', untilMs: Date.now() + retryAfterSeconds * 1000 + HOUR_MARGIN_MS };
  }
  if (status === INCOMPLETE) return { kind: 'failed', why: { kind: 'incomplete', reason: reasonIn(message) } };
  if (status !== 0 && status < 500 && status !== 429) {
    return { kind: 'failed', why: { kind: 'refused', reason: reasonIn(message) } };
  }
  if (status === 0 && !(await isReadable(content))) return { kind: 'failed', why: { kind: 'unreadable' } };
  const waitMs = nextWaitMs();
  if (waitMs === null) return { kind: 'failed', why: { kind: 'gaveUp' } };
  const untilMs = Date.now() + (retryAfterSeconds === null ? waitMs : retryAfterSeconds * 1000);
  return { kind: 'paused', why: status === 0 ? 'offline' : 'busy', untilMs };
}

/** A file that can't be scanned has failed from the beginning. */
function firstState(content: Content): ItemState {
  const why = content.kind === 'file' ? refusalOf(content.file) : null;
  return why === null ? { kind: 'waiting' } : { kind: 'failed', why };
}

/** Known before anything is sent, and without a unit of the quota. */
function refusalOf(file: File): Failed | null {
  const { size } = file;
  if (isUnreadable(file)) return { kind: 'unreadable' };
  if (size > LIMIT_BYTES) return { kind: 'tooLarge', bytes: size };
  return size === 0 ? { kind: 'empty' } : null;
}

/** What the service puts in front of a reason is said by the page in its own words. */
function reasonIn(message: string): string {
  return message.replace(/^Scan incomplete: /, '');
}

/** A file that was changed since it was chosen fails as a server does that is away. */
async function isReadable(content: Content): Promise<boolean> {
  if (content.kind === 'url') return true;
  try {
    await content.file.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

/** The page's own. */
export const queue = createQueue();
