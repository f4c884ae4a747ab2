// Contestant: Debian's clamd, spoken to with INSTREAM over a unix socket.
import { type ClamdOptions, startClamd } from '../../test/fixtures/clamd.js';
import type { Contestant, PacedContestant, Setting } from './contestant.js';
import { speakTo } from './socket-client.js';

/** As Debian's package configures it, whatever the number of cores (clamav-daemon's MaxThreads). */
export const DEBIAN_THREADS = 12;

export function startClamdContestant(setting: Setting, connections: number): Promise<PacedContestant> {
  return start('clamd', setting, connections);
}

/** With its cache, as Debian configures it: it remembers what was clean. */
export function startRememberingClamd(setting: Setting, connections: number): Promise<Contestant> {
  return start('clamd-cache', { ...setting, remembers: true }, connections);
}

/** The same with an allocator that keeps its memory, as ours may: what is left is not the allocator's. */
export function startTunedClamd(setting: Setting, connections: number): Promise<Contestant> {
  return start('clamd-tuned', { ...setting, keepsMemory: true }, connections);
}

async function start(
  name: string,
  setting: Setting & Pick<ClamdOptions, 'keepsMemory' | 'remembers'>,
  connections: number,
): Promise<PacedContestant> {
  const { pid, socketPath, stop } = await startClamd({ ...setting, threads: DEBIAN_THREADS });
  return await speakTo({ name, pid, socketPath, stop }, connections);
}
