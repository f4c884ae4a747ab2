// How a scan thread waits for its next scan, and how it is woken: by a word that both sides share, with one call of the kernel, and none where the thread is awake.
import { type ProcessAddon, processAddon } from '../../process-addon.js';
import { TURN } from './ring.js';

/**
 * Of the words: the thread sleeps, or is about to, and wants to be woken. The thread alone writes it: a waker that was held up would otherwise take back
 * what it says of its next sleep.
 */
export const ASLEEP = 3;
/** After a scan the next one comes within this time, or not soon. */
const AWAKE_US = 50;
/** A thread that is to end is woken. This is for one whose process ends without a word. */
const LOOK_MS = 250;

type Waking = Pick<ProcessAddon, 'awaitWord' | 'sleepOnWord' | 'wakeWord'>;

/** Posts a change of the word to the thread: to be called after it. */
export function wakeThread(words: Int32Array, addon: Pick<Waking, 'wakeWord'> | null): void {
  if (Atomics.load(words, ASLEEP) === 0) return;
  if (addon === null) Atomics.notify(words, TURN);
  else addon.wakeWord(words, TURN);
}

/**
 * Returns what waits until the word is no longer as it was seen; it may return before that. `staysAwake`: it looks for that itself at first, so that nobody need
 * wake it; on one core it would be in the way. Atomics.wait would make two calls of the kernel of each
 * waking, and a thread that is woken by it stands still at once behind a lock that the waking one still has. To be called before the thread is confined: it may
 * load the addon.
 */
export function sleeper(
  words: Int32Array,
  staysAwake: boolean,
  addon: Waking | null = processAddon(),
): (seen: number) => void {
  return (seen) => {
    if (staysAwake && addon?.awaitWord(words, TURN, seen, AWAKE_US)) return;
    Atomics.store(words, ASLEEP, 1);
    // Whoever changes the word from here on sees that, and what was changed before is seen by the call.
    if (addon === null) Atomics.wait(words, TURN, seen, LOOK_MS);
    else addon.sleepOnWord(words, TURN, seen, LOOK_MS);
    Atomics.store(words, ASLEEP, 0);
  };
}
