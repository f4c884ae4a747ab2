// The client of contestants that speak clamd's protocol over a UNIX socket, whoever serves it: sessions or a connection for each scan, whichever is faster.
import { compile, loadProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import { askForFiles, askForPace, askForRun, type PacedContestant } from './contestant.js';

/** Length of a trial that finds the faster way to speak to it, in seconds. */
export const TRIAL_SECONDS = 0.6;

type Way = 'keep' | 'close';

const wayText: Record<Way, string> = {
  keep: 'one IDSESSION per connection',
  close: 'one connection per scan',
};

interface SocketServer {
  readonly name: string;
  readonly pid: number;
  readonly socketPath: string;
  stop(): Promise<void>;
}

/** The server is stopped with it, and also when it can't be asked. */
export async function speakTo(server: SocketServer, connections: number): Promise<PacedContestant> {
  const client = startLineProcess(await compile(loadProgram));
  let way: Way = 'keep';
  const runOnce = (seconds: number) => askForRun(client, `run ${seconds} ${connections} ${way}`);
  async function trial(one: Way): Promise<number> {
    way = one;
    const { scans, seconds } = await runOnce(TRIAL_SECONDS);
    return scans / seconds;
  }
  async function stop(): Promise<void> {
    await client.stop();
    await server.stop();
  }
  try {
    await client.ask(`clamd ${server.socketPath}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name: server.name,
    pid: server.pid,
    connections,
    async use(files) {
      await askForFiles(client, files);
      // The first ones are of a server whose code isn't compiled yet.
      await trial('keep');
      await trial('close');
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
