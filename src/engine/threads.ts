// Threads for scans, sole importer of piscina but for the threads' entry: a set of them, and another one for each that is lost in native code.
import { Piscina } from 'piscina';
import { scanWorkerPath } from '../paths.js';
import type { ScanTask, ScanTaskResult, ThreadSettings } from './task.js';

export interface Threads {
  /** Threads that have nothing to do. */
  readonly idle: number;
  /** Only when one is idle; until it is released nobody else gets it. */
  take(): Thread;
  /** Ends the threads, but for those that are lost: native code can't be stopped from outside. */
  stop(): Promise<void>;
}

export interface Thread {
  /** One task at a time. */
  run(task: ScanTask): Promise<ScanTaskResult>;
  /** Counts it as lost until it is released. */
  lose(): void;
  release(): void;
}

/** Some threads of one Piscina. */
interface Group {
  readonly piscina: Piscina<ScanTask, ScanTaskResult>;
  readonly size: number;
  running: number;
  lost: number;
  /** Its thread is not needed any more: the lost one that it stood in for has come back. */
  leaving: boolean;
}

function startGroup(size: number, settings: ThreadSettings): Group {
  const piscina = new Piscina<ScanTask, ScanTaskResult>({
    filename: scanWorkerPath,
    name: 'scanTask',
    minThreads: size,
    maxThreads: size,
    idleTimeout: Number.POSITIVE_INFINITY,
    maxQueue: 0,
    workerData: settings,
  });
  return { piscina, size, running: 0, lost: 0, leaving: false };
}

export function startThreads(count: number, settings: ThreadSettings): Threads {
  /** Behind the first come those that stand in: at most `count`, since each that hangs costs a core. */
  const groups = [startGroup(count, settings)];

  const free = (group: Group): number => (group.leaving ? 0 : group.size - group.running);

  const lost = (): number => groups.reduce((total, group) => total + group.lost, 0);
  const standIns = (): Group[] => groups.slice(1).filter((group) => !group.leaving);

  function leave(group: Group): void {
    const at = groups.indexOf(group);
    if (!group.leaving || group.running > 0 || at === -1) return;
    groups.splice(at, 1);
    void group.piscina.destroy();
  }

  function standIn(): void {
    if (groups.length <= count && standIns().length < lost()) groups.push(startGroup(1, settings));
  }

  /** Only when fewer are lost than stand in: a lost one that stood in itself leaves the first one lost. */
  function standDown(): void {
    const standing = standIns();
    if (standing.length <= lost()) return;
    const spare = standing.find((group) => group.lost === 0);
    if (spare === undefined) return;
    spare.leaving = true;
    leave(spare);
  }

  return {
    get idle() {
      return groups.reduce((total, group) => total + free(group), 0);
    },
    take() {
      const group = groups.find((each) => free(each) > 0);
      if (group === undefined) throw new Error('No thread is idle');
      group.running += 1;
      let isLost = false;
      return {
        run: (task) => group.piscina.run(task, { transferList: [task.content] }),
        lose() {
          isLost = true;
          group.lost += 1;
          standIn();
        },
        release() {
          group.running -= 1;
          if (isLost) {
            group.lost -= 1;
            standDown();
          }
          leave(group);
        },
      };
    },
    async stop() {
      await Promise.all(groups.filter((group) => group.lost === 0).map((group) => group.piscina.destroy()));
    },
  };
}
