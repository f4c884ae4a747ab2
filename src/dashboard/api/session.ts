// The session as this browser knows it: until when the access cookie is good, renewed by one tab for all of them.
import { CHANGE_MS, deadline, READ_MS } from './deadline.ts';
import { localStorage } from './local-storage.ts';
import { newOnceKey } from './once-key.ts';
import { noAnswer, problemOf, SessionEnded } from './problem.ts';
import { SignedIn } from './shapes.ts';

/** The tokens are in cookies that no script can read; this only says until when, in epoch milliseconds. */
const UNTIL = 'sluice.signedInUntil';
/** The id of the account. */
const AS = 'sluice.signedInAs';
/** The Idempotency-Key of the next renewal, of whichever tab: of two at once, or of one whose answer was lost, both have the same answer. */
const RENEWAL_KEY = 'sluice.renewalKey';
/** Renewed this long before its end: no request meets an expired token on its way. */
const MARGIN_MS = 60_000;
const LOCK = 'sluice.refresh';

/** `notKept`: the browser has not kept the cookies. */
export type EndReason = 'ended' | 'signedOut' | 'notKept';
type Listener = (reason: EndReason) => void;
const listeners = new Set<Listener>();

export function onSessionEnd(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Called whenever `isSignedIn` may have changed. */
const watchers = new Set<() => void>();

export function watchSession(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** Whose things the page shows; null: nobody's. */
let shownAs = signedInAs();
/** Since a sign-in on this page no answer has shown yet that the browser has kept the cookies. */
let isUntried = false;

function changed(): void {
  shownAs = signedInAs();
  for (const watcher of watchers) watcher();
}

function tell(reason: EndReason): void {
  for (const listener of listeners) listener(reason);
}

// Another tab has signed out, or has found the session ended.
window.addEventListener('storage', ({ key, newValue }) => {
  if (key !== UNTIL) return;
  changed();
  if (newValue === null) tell('signedOut');
});

// Shown again by Back, as the browser has kept it: it has heard of nothing that other pages did meanwhile.
window.addEventListener('pageshow', () => {
  const before = shownAs;
  changed();
  if (before !== null && before !== shownAs) tell('signedOut');
});

export function isSignedIn(): boolean {
  return localStorage.getItem(UNTIL) !== null;
}

/** Null: nobody is, or nobody knows. */
export function signedInAs(): string | null {
  return localStorage.getItem(AS);
}

export function rememberSession({ expiresIn, user }: SignedIn): void {
  // The time last: other tabs hear of it.
  localStorage.setItem(RENEWAL_KEY, newOnceKey());
  localStorage.setItem(AS, user.id);
  localStorage.setItem(UNTIL, String(Date.now() + expiresIn * 1000));
  changed();
}

/** Returns whether there was a session. */
export function forgetSession(): boolean {
  const was = isSignedIn();
  localStorage.removeItem(RENEWAL_KEY);
  localStorage.removeItem(AS);
  localStorage.removeItem(UNTIL);
  changed();
  return was;
}

/** Somebody has signed in on this page. */
export function noteSignIn(): void {
  isUntried = true;
}

/** The service has taken the cookies. */
export function noteTaken(): void {
  isUntried = false;
}

function untilMs(): number {
  return Number(localStorage.getItem(UNTIL) ?? 0);
}

/** Renews the access cookie when it is about to end. Rejects with SessionEnded or Problem. */
export async function keepFresh(): Promise<void> {
  const until = untilMs();
  if (until - Date.now() < MARGIN_MS) await renew(until);
}

/** The cookie was refused: renews it unless another tab has just done so. Rejects with SessionEnded or Problem. */
export async function renewAfterRefusal(): Promise<void> {
  await renew(untilMs());
}

/** The renewal of this tab, which all its requests wait for. */
let renewal: Promise<void> | null = null;

/** Who waits gives up when it takes long. What was sent is not given up with them, nor sent again beside it. */
async function renew(seenUntil: number): Promise<void> {
  renewal ??= inTurn(seenUntil).finally(() => {
    renewal = null;
  });
  const work = renewal;
  await new Promise<void>((resolve, reject) => {
    const timer = window.setTimeout(() => reject(noAnswer()), READ_MS);
    void work.then(resolve, reject).finally(() => window.clearTimeout(timer));
  });
}

/** A refresh token works once, so tabs take turns: a tab that waited finds a new one. */
async function inTurn(seenUntil: number): Promise<void> {
  const work = async (): Promise<void> => {
    // Another request, or tab, has heard that it is over.
    if (!isSignedIn()) throw new SessionEnded();
    if (untilMs() === seenUntil) await refresh(seenUntil);
  };
  // Without https, locks exist on this very machine alone. Two requests at once have the same key, and so the same answer.
  if ('locks' in navigator) await navigator.locks.request(LOCK, work);
  else await work();
}

async function refresh(seenUntil: number): Promise<void> {
  const { response, text } = await sendRefresh();
  if (response.ok) {
    rememberSession(SignedIn.parse(JSON.parse(text)));
    return;
  }
  if (response.status !== 401) throw problemOf(response.status, text, response.headers.get('retry-after'));
  // A tab that couldn't wait for us was faster: its cookie is ours as well.
  if (untilMs() !== seenUntil && isSignedIn()) return;
  endSession();
  throw new SessionEnded();
}

async function sendRefresh(): Promise<{ readonly response: Response; readonly text: string }> {
  const key = localStorage.getItem(RENEWAL_KEY) ?? newOnceKey();
  // There is none of a session that an older page has remembered. A token that was used and is sent again without its key ends the session.
  localStorage.setItem(RENEWAL_KEY, key);
  const headers = { 'Idempotency-Key': key };
  try {
    const response = await fetch('/web/auth/refresh', { method: 'POST', headers, signal: deadline(CHANGE_MS) });
    return { response, text: await response.text() };
  } catch {
    throw noAnswer();
  }
}

/** The service said that the session is over. */
export function endSession(): void {
  if (forgetSession()) tell(isUntried ? 'notKept' : 'ended');
}
