// Contestant: our scan pool without HTTP, in a process of its own (engine-loop.ts).

import { startLineProcess } from '../line-process.js';
import { builtPath } from '../paths.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';

export async function startEngine({ databaseDirectory, threads }: Setting): Promise<Contestant> {
  const loop = startLineProcess(process.execPath, {
    args: [builtPath('engine-loop.js'), databaseDirectory, String(threads)],
  });
  try {
    const first = await loop.next();
    if (first !== 'loaded') throw new Error(`the engine did not start: ${first}`);
  } catch (error) {
    await loop.stop();
    throw error;
  }
  return {
    name: 'engine',
    pid: loop.pid,
    connections: null,
    async use(files) {
      await askForFiles(loop, files);
      return null;
    },
    run: (seconds) => askForRun(loop, `run ${seconds}`),
    stop: () => loop.stop(),
  };
}
