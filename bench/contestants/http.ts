// Contestants that are spoken to as the service is: HTTP without a service behind it (bare-http.ts), and a REST service around clamd (rest-clamd.ts).
import { compile, loadProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import { builtPath } from '../paths.js';
import { DEBIAN_THREADS } from './clamd.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';

export function startBareHttp(_setting: Setting, connections: number): Promise<Contestant> {
  return start('http', [builtPath('bare-http.js')], connections);
}

export function startRestClamd({ databaseDirectory }: Setting, connections: number): Promise<Contestant> {
  return start('clamd-rest', [builtPath('rest-clamd.js'), databaseDirectory, String(DEBIAN_THREADS)], connections);
}

async function start(name: string, args: readonly string[], connections: number): Promise<Contestant> {
  const program = await compile(loadProgram);
  const server = startLineProcess(process.execPath, { args });
  const client = startLineProcess(program);
  async function stop(): Promise<void> {
    await client.stop();
    await server.stop();
  }
  try {
    await client.ask(`http ${await server.next()} nobody-looks-at-the-key`);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name,
    pid: server.pid,
    connections,
    async use(files) {
      await askForFiles(client, files);
      return null;
    },
    run: (seconds) => askForRun(client, `run ${seconds} ${connections} keep`),
    stop,
  };
}
