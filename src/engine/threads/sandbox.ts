// The sandbox of the scan threads: when a thread is confined, and what is to be said of a machine that can't do it.
import { lacksTasks, messageOfError } from '../../error-text.js';
import { type Confinement, confineThread, engineInfo, tryConfinement } from '../clamav/addon.js';
import type { SandboxMode } from './task.js';

export type { Confinement } from '../clamav/addon.js';

/** What is asked for and can't be had. */
class SandboxMissingError extends Error {}

/**
 * Returns what a thread calls before each scan: at the first one by ClamAV it confines the thread, after `loadAhead` has loaded
 * what could not be loaded any more. Throws when it must confine it and can't.
 */
export function createConfinement(mode: SandboxMode, loadAhead: () => void): (byClamav: boolean) => void {
  let confined = mode === 'off';
  let failure: unknown;
  return (byClamav) => {
    if (failure !== undefined) throw failure;
    if (confined) return;
    // What a thread keeps is the temporary folder of ClamAV's engine. Rules need none and are memory-safe; a thread that was
    // confined without the folder could not scan for ClamAV when its databases come.
    if (!byClamav && mode === 'required')
      throw new SandboxMissingError('SANDBOX=required, but only ClamAV is confined');
    if (!byClamav || engineInfo() === null) return;
    loadAhead();
    try {
      insist(mode, confineThread([]));
      confined = true;
    } catch (error) {
      // It may be half confined by now, so it can't go on without confinement.
      failure = error;
      throw error;
    }
  };
}

export interface FoundSandbox {
  /** What the scan threads get as their setting. */
  readonly mode: SandboxMode;
  /** Null: they are not confined. */
  readonly confinement: Confinement | null;
  /** For the operator: what is missing. */
  readonly warning: string | null;
}

/** Tries on this machine what scan threads will do. Throws SandboxMissingError when it is required and can't be had, and where no thread can be started to try it. */
export function findSandbox(mode: SandboxMode): FoundSandbox {
  if (mode === 'off') return { mode, confinement: null, warning: 'Scan threads are not confined: SANDBOX=off' };
  try {
    const confinement = tryConfinement();
    insist(mode, confinement);
    const missing = missingParts(confinement);
    return { mode, confinement, warning: missing === null ? null : `Scan threads are not confined fully: ${missing}` };
  } catch (error) {
    if (error instanceof SandboxMissingError) throw error;
    const reason = messageOfError(error);
    // It says nothing of the sandbox: nobody scans without one for that.
    if (lacksTasks(error)) throw new Error(`The sandbox can't be tried: ${reason}`, { cause: error });
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
