// What is known of the signatures at any time, and what happens to them: the shapes that the service reads.
import type { Engine } from './engine.js';

/** The outcome of the last request for newer signatures, while older ones serve. */
export type ReloadState =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'failed'; readonly message: string /** Epoch seconds. */; readonly failedAt: number };

export type SignatureState =
  | { readonly kind: 'loading' /** 0 to 1 */; readonly progress: number }
  | { readonly kind: 'ready'; readonly engine: Engine; readonly reload: ReloadState }
  | { readonly kind: 'failed'; readonly message: string };

export type SignatureEvent =
  | { readonly kind: 'loaded'; readonly engine: Engine }
  /** `serving`: the engine from before goes on. */
  | { readonly kind: 'failed'; readonly message: string; readonly serving: boolean }
  | { readonly kind: 'warning'; readonly message: string }
  /** Gates hit for nothing in this share of the scans, 0 to 1: the signatures are loaded again, without these gates. */
  | { readonly kind: 'noise'; readonly share: number };

/** The wanted engine serves, and the last request for newer signatures did not fail. */
export function isWell(state: SignatureState): boolean {
  return state.kind === 'ready' && state.reload.kind !== 'failed' && state.engine.standsInFor === null;
}
