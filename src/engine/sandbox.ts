// The sandbox of the scan threads: when a thread is confined, and what is to be said of a machine that can't do it.
import { type Confinement, confineThread, engineInfo, tryConfinement } from './addon.js';
import type { SandboxMode } from './task.js';

/** What is asked for and can't be had. */
class SandboxMissingError extends Error {}

/** Returns a function that confines the calling thread at its first call that finds an engine, and throws if it must and can't. */
export function createConfinement(mode: SandboxMode): () => void {
  let confined = mode === 'off';
  let failure: unknown;
  return () => {
    if (failure !== undefined) throw failure;
    // The engine's temporary folder is what a thread keeps. Without an engine it can't scan either.
    if (confined || engineInfo() === null) return;
    try {
      insist(mode, confineThread([]));
      confined = true;
    } catch (error) {
      // It may be half confined, and to go on as if nothing was asked for is no choice.
      failure = error;
      throw error;
    }
  };
}

export interface FoundSandbox {
  /** What the scan threads are to be told. */
  readonly mode: SandboxMode;
  /** Null: they are not confined. */
  readonly confinement: Confinement | null;
  /** For the operator: what is missing. */
  readonly warning: string | null;
}

/** Tries on this machine what scan threads will do. Throws SandboxMissingError when it is required and can't be had. */
export function findSandbox(mode: SandboxMode): FoundSandbox {
  if (mode === 'off') return { mode, confinement: null, warning: 'Scan threads are not confined: SANDBOX=off' };
  try {
    const confinement = tryConfinement();
    insist(mode, confinement);
    const missing = missingParts(confinement);
    return { mode, confinement, warning: missing === null ? null : `Scan threads are not confined fully: ${missing}` };
  } catch (error) {
    if (error instanceof SandboxMissingError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    if (mode === 'required') throw new SandboxMissingError(`SANDBOX=required, but ${reason}`, { cause: error });
    return { mode: 'off', confinement: null, warning: `Scan threads are not confined: ${reason}` };
  }
}

/** Null: none is. */
function missingParts({ seccomp, landlock }: Confinement): string | null {
  const missing = [...(seccomp ? [] : ['seccomp']), ...(landlock === null ? ['Landlock'] : [])];
  return missing.length === 0 ? null : `${missing.join(' and ')} can't be had from this kernel or container`;
}

function insist(mode: SandboxMode, confinement: Confinement): void {
  const missing = missingParts(confinement);
  if (mode === 'required' && missing !== null) throw new SandboxMissingError(`SANDBOX=required, but ${missing}`);
}
