// Parts of the page that are loaded when they are needed. While the server is away they wait for it. A page that was loaded before an upgrade asks for parts that are gone: the new page has others. What fails for another reason is not loaded again and again.
import { type ComponentType, type ReactNode, useEffect, useReducer } from 'react';
import { untilReachable } from '../api/reachability.ts';
import { queue } from '../scan/queue.ts';

/** The script that this page is of, whose name has a hash of its content, for the tab. */
const RELOADED = 'sluice.reloadedFor';

type State<Props> =
  | { readonly kind: 'unasked' | 'loading' }
  | { readonly kind: 'there'; readonly Component: ComponentType<Props> }
  | { readonly kind: 'missing'; readonly error: unknown };

/**
 * A component that is loaded when it is shown for the first time. Not by `lazy` of React, which leaves a fallback on the page for 300 ms, however
 * soon the part is there. `whileLoading`: what is shown until then.
 */
export function part<Props extends object>(load: () => Promise<ComponentType<Props>>, whileLoading: ReactNode) {
  let state: State<Props> = { kind: 'unasked' };
  const waiting = new Set<() => void>();

  async function fetchIt(): Promise<void> {
    state = { kind: 'loading' };
    try {
      state = { kind: 'there', Component: await loadPart(load) };
    } catch (error) {
      state = { kind: 'missing', error };
    }
    for (const tell of waiting) tell();
  }

  // biome-ignore lint/correctness/noComponentHookFactories: a part is made once, at the top of its module.
  return function Part(props: Props) {
    const [, look] = useReducer((looks: number) => looks + 1, 0);
    useEffect(() => {
      waiting.add(look);
      if (state.kind === 'unasked') void fetchIt();
      // It may have come between the first look and this.
      else if (state.kind !== 'loading') look();
      return () => void waiting.delete(look);
    }, []);
    if (state.kind === 'missing') throw state.error;
    return state.kind === 'there' ? <state.Component {...props} /> : whileLoading;
  };
}

/** Rejects where the server answers and the part can't be had: somebody has to decide. */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch {
    // A reload while the server is away would leave the browser's own page, which doesn't come back.
    await untilReachable();
    return await loadAgain(load);
  }
}

/** Some browsers remember that a part could not be loaded, and don't ask for it again. */
async function loadAgain<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!reloadOnce()) throw error;
    // The page goes.
    return await new Promise<never>(() => undefined);
  }
}

/** Loads the page again, once in a tab for each version, and never while files are on their way. False: it isn't done. */
function reloadOnce(): boolean {
  if (queue.isBusy() || !rememberReload(import.meta.url)) return false;
  window.location.reload();
  return true;
}

/** False: it was done before, or can't be remembered. */
function rememberReload(version: string): boolean {
  try {
    if (sessionStorage.getItem(RELOADED) === version) return false;
    sessionStorage.setItem(RELOADED, version);
    return true;
  } catch {
    return false;
  }
}
