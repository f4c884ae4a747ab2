// Contestant: the plain C loop over libclamav. It is the measure of the others and says which files are clean.
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { compile, rawLoopProgram } from '../compile.js';
import { startLineProcess } from '../line-process.js';
import { askForFiles, askForRun, type Contestant, type Setting } from './contestant.js';

const loaded = z.object({ version: z.string(), signatures: z.number() });

export interface RawLoop extends Contestant {
  readonly engine: z.infer<typeof loaded>;
  isClean(listPath: string, unique: boolean): Promise<(index: number) => boolean>;
}

export async function startRaw({ databaseDirectory, threads, folder }: Setting): Promise<RawLoop> {
  const path = await compile(rawLoopProgram);
  const temporary = await mkdtemp(existsSync('/dev/shm') ? '/dev/shm/sluice-bench-' : join(folder, 'raw-'));
  const loop = startLineProcess(path, { args: [databaseDirectory, temporary] });
  async function stop(): Promise<void> {
    await loop.stop();
    await rm(temporary, { recursive: true, force: true });
  }
  try {
    const first = await loop.next();
    return {
      name: 'raw',
      pid: loop.pid,
      connections: null,
      engine: loaded.parse(JSON.parse(first.replace(/^loaded /, ''))),
      async isClean(listPath, unique) {
        await loop.ask(`files ${unique ? 'unique' : 'fixed'} ${listPath}`);
        const answer = await loop.ask('check');
        const others = new Set(answer.split(' ').slice(1).map(Number));
        return (index) => !others.has(index);
      },
      async use(files) {
        await askForFiles(loop, files);
        return null;
      },
      run: (seconds) => askForRun(loop, `run ${seconds} ${threads}`),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
