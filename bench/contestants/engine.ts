// Contestant: our scan pool without HTTP, in a process of its own (engine-loop.ts).
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { copyLearned } from '../learned.js';
import { startLineProcess } from '../line-process.js';
import { builtPath } from '../paths.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';

export async function startEngine(setting: Setting): Promise<Contestant> {
  const gates = await mkdtemp(join(setting.folder, 'gates-'));
  if (setting.gatesStore) await copyLearned(setting.gatesStore, gates);
  return await start('engine', setting, [gates]);
}

export function startPlainEngine(setting: Setting): Promise<Contestant> {
  return start('engine-plain', setting, []);
}

async function start(
  name: string,
  { databaseDirectory, threads }: Setting,
  more: readonly string[],
): Promise<Contestant> {
  const loop = startLineProcess(process.execPath, {
    args: [builtPath('engine-loop.js'), databaseDirectory, String(threads), ...more],
  });
  try {
    const first = await loop.next();
    if (first !== 'loaded') throw new Error(`the engine did not start: ${first}`);
  } catch (error) {
    await loop.stop();
    throw error;
  }
  return {
    name,
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
