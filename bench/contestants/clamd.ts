// Contestant: Debian's clamd, spoken to with INSTREAM over a unix socket.
import { type ClamdOptions, startClamd } from '../../test/fixtures/clamd.js';
import { compile, loadProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import {
  askForFiles,
  askForPace,
  askForRun,
  type Contestant,
  type PacedContestant,
  type Setting,
} from './contestant.js';

/** As Debian's package configures it, whatever the number of cores (clamav-daemon's MaxThreads). */
const DEBIAN_THREADS = 12;
/** Length of the two trials that find the faster way to speak to it, in seconds. */
const TRIAL_SECONDS = 0.4;

type Way = 'keep' | 'close';

const wayText: Record<Way, string> = {
  keep: 'one IDSESSION per connection',
  close: 'one connection per scan',
};

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
  const program = await compile(loadProgram);
  const clamd = await startClamd({ ...setting, threads: DEBIAN_THREADS });
  const client = startLineProcess(program);
  let way: Way = 'keep';
  const runOnce = (seconds: number) => askForRun(client, `run ${seconds} ${connections} ${way}`);
  async function trial(one: Way): Promise<number> {
    way = one;
    const { scans, seconds } = await runOnce(TRIAL_SECONDS);
    return scans / seconds;
  }
  async function stop(): Promise<void> {
    await client.stop();
    await clamd.stop();
  }
  try {
    await client.ask(`clamd ${clamd.socketPath}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name,
    pid: clamd.pid,
    connections,
    async use(files) {
      await askForFiles(client, files);
      const kept = await trial('keep');
      const closed = await trial('close');
      way = kept >= closed ? 'keep' : 'close';
      return wayText[way];
    },
    run: runOnce,
    pace: (seconds, rate) => askForPace(client, seconds, rate),
    stop,
  };
}
