// Contestant: HTTP without a service behind it (bare-http.ts), spoken to as the service is.
import { compile, loadProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import { builtPath } from '../paths.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';

export async function startBareHttp(_setting: Setting, connections: number): Promise<Contestant> {
  const program = await compile(loadProgram);
  const server = startLineProcess(process.execPath, { args: [builtPath('bare-http.js')] });
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
    name: 'http',
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
