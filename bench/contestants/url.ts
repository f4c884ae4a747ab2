// Contestant: the service as it comes, asked by URL: each scan names one, and the content is downloaded from a server of the bench's (origin-process.ts), whose CPU time is not in its figure.
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compile, loadProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import { builtPath } from '../paths.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';
import { startServer } from './sluice.js';

/** More than the largest content of a scenario. */
const MB_OF_DOWNLOAD = 16;

export async function startSluiceByUrl(setting: Setting, connections: number): Promise<Contestant> {
  const program = await compile(loadProgram);
  const origin = startLineProcess(process.execPath, { args: [builtPath('origin-process.js')] });
  const server = await startServer(setting, {
    VERDICT_CACHE_MB: '0',
    URL_ALLOW_NETWORKS: '127.0.0.1/32',
    DOWNLOADS_PER_USER: String(connections),
    DOWNLOAD_MEMORY_MB: String(MB_OF_DOWNLOAD * connections),
  }).catch(async (error: unknown) => {
    await origin.stop();
    throw error;
  });
  const client = startLineProcess(program);
  async function stop(): Promise<void> {
    await client.stop();
    await server.stop();
    await origin.stop();
  }
  try {
    const port = await origin.next();
    await client.ask(`url ${server.port} ${server.apiKey}`);
    return {
      name: 'sluice-url',
      pid: server.pid,
      connections,
      async use(files) {
        await askForFiles(origin, files);
        const listPath = await writeUrls(setting.folder, port, files.count);
        await askForFiles(client, { ...files, unique: false, listPath });
        return null;
      },
      run: (seconds) => askForRun(client, `run ${seconds} ${connections} keep`),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A file for each URL, which is what the client sends, and a list of them. */
async function writeUrls(parent: string, port: string, count: number): Promise<string> {
  const folder = await mkdtemp(join(parent, 'urls-'));
  const paths = Array.from({ length: count }, (_, number) => join(folder, String(number)));
  for (const [number, path] of paths.entries()) await writeFile(path, `http://127.0.0.1:${port}/${number}`);
  const listPath = join(folder, 'list');
  await writeFile(listPath, paths.map((path) => `${path}\n`).join(''));
  return listPath;
}
