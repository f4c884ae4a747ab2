// The server processes of one slot: one, or two while the one takes over from the other.
import type { Report } from './messages.js';
import { READY_MESSAGE } from './messages.js';
import type { ServerProcess } from './server-child.js';

/** How a process is to begin. */
export interface Beginning {
  /** Another one is still there: prepare everything and wait for the order to serve. */
  readonly takesOver: boolean;
  /** Whether a stand-in engine may take over. */
  readonly mayStandIn: boolean;
}

export type StartProcess = (
  beginning: Beginning,
  onReport: (report: Report, server: ServerProcess) => void,
) => ServerProcess;

export interface Processes {
  readonly size: number;
  launch(beginning: Beginning): ServerProcess;
  /** Starts one that serves as soon as it can, whether or not a process that was replaced still answers what it had. */
  fill(): ServerProcess;
  /** Orders a process that takes over to serve, and says when it is alone. */
  serve(server: ServerProcess): void;
  endOfOthers(server: ServerProcess): Promise<void>;
  forward(signal: NodeJS.Signals): void;
  /** Resolves when the first process serves, or has ended. */
  readonly firstReady: Promise<void>;
  /** Resolves when none runs any more. */
  empty(): Promise<void>;
}

export function createProcesses(
  start: StartProcess,
  onReport: (report: Report, server: ServerProcess) => void,
): Processes {
  const running = new Set<ServerProcess>();
  let wasReady: () => void = () => undefined;
  const firstReady = new Promise<void>((resolve) => {
    wasReady = resolve;
  });

  function launch(beginning: Beginning): ServerProcess {
    const server = start(beginning, onReport);
    running.add(server);
    void server.ended.then(() => running.delete(server));
    void server.heard(READY_MESSAGE).then(wasReady);
    return server;
  }

  async function endOfOthers(server: ServerProcess): Promise<void> {
    await Promise.all([...running].filter((other) => other !== server).map((other) => other.ended));
  }

  function serve(server: ServerProcess): void {
    server.tell({ kind: 'serve' });
    void endOfOthers(server).then(() => server.tell({ kind: 'alone' }));
  }

  return {
    get size() {
      return running.size;
    },
    launch,
    fill() {
      const takesOver = running.size > 0;
      const server = launch({ takesOver, mayStandIn: true });
      if (takesOver) serve(server);
      return server;
    },
    serve,
    endOfOthers,
    forward(signal) {
      for (const server of running) server.kill(signal);
    },
    firstReady,
    async empty() {
      while (running.size > 0) await Promise.all([...running].map((server) => server.ended));
    },
  };
}
