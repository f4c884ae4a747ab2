// The process of the embedded database under the supervisor: started before the servers, again when it dies, ended after them.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log } from './log.js';
import { READY_MESSAGE } from './supervisor-messages.js';

export interface StoreProcess {
  /** Where the servers find it, also after it was started anew. */
  readonly socketDirectory: string;
  stop(): Promise<void>;
}

export type StoreStart =
  | { readonly started: true; readonly store: StoreProcess }
  | { readonly started: false; readonly exitCode: number };

/** Between its death and its next start, doubling from the first to the last. */
const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 30_000;
/** sysexits.h EX_SOFTWARE, for one that a signal ended before it was ready. */
const EXIT_SOFTWARE = 70;

/** Resolves when it can be used, or has ended before that. `command` gets the socket's folder as its last argument. */
export async function startStoreProcess(command: readonly [string, ...string[]], log: Log): Promise<StoreStart> {
  const socketDirectory = mkdtempSync(join(tmpdir(), 'sluice-store-'));
  const [program, ...args] = command;
  let stopping = false;
  let delayMs = FIRST_DELAY_MS;
  let child = start();
  let timer: NodeJS.Timeout | undefined;
  let ended = endOf(child);

  function start(): ChildProcess {
    return spawn(program, [...args, socketDirectory], { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  }

  function keep(): void {
    void ended.then((code) => {
      if (stopping) return;
      log.error({ exitCode: code, delayMs }, 'the embedded database ended, restarting');
      timer = setTimeout(() => {
        child = start();
        child.on('message', () => {
          delayMs = FIRST_DELAY_MS;
        });
        ended = endOf(child);
        keep();
      }, delayMs);
      delayMs = Math.min(LAST_DELAY_MS, delayMs * 2);
    });
  }

  const ready = new Promise<true>((resolve) => {
    child.on('message', (message) => {
      if (message === READY_MESSAGE) resolve(true);
    });
  });
  const first = await Promise.race([ready, ended]);
  if (first !== true) {
    rmSync(socketDirectory, { recursive: true, force: true });
    return { started: false, exitCode: first ?? EXIT_SOFTWARE };
  }
  keep();
  const store: StoreProcess = {
    socketDirectory,
    async stop() {
      stopping = true;
      clearTimeout(timer);
      if (child.connected) child.send('stop', () => undefined);
      await ended;
      rmSync(socketDirectory, { recursive: true, force: true });
    },
  };
  return { started: true, store };
}

/** Resolves with its exit code; null: a signal ended it, or it did not start. */
function endOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => {
    child.on('exit', (code) => resolve(code));
    child.on('error', () => {
      if (child.pid === undefined) resolve(null);
    });
  });
}
