// How many server processes are started, and what the log says of it, with and without the addon that lets them share a socket.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { countProcesses } from '../../src/cli/serve.js';
import { startServer } from '../fixtures/server.js';

function counted(config: Parameters<typeof countProcesses>[0], canShare: boolean) {
  const lines: unknown[][] = [];
  const write = (...line: unknown[]): void => void lines.push(line);
  return { count: countProcesses(config, canShare, { info: write, warn: write }), lines };
}

t.test('a number is taken as it is; the choice of auto is in the log', async (t) => {
  t.strictSame(counted({ processes: 3, processesBecause: null, scanThreads: 2 }, true), { count: 3, lines: [] });
  t.strictSame(counted({ processes: 3, processesBecause: 'memory', scanThreads: 2 }, true), {
    count: 3,
    lines: [[{ processes: 3, because: 'memory', scanThreads: 2 }, 'PROCESSES=auto']],
  });
});

t.test('without a shared socket there is one process, or none where several were asked for', async (t) => {
  const auto = counted({ processes: 3, processesBecause: 'cores', scanThreads: 2 }, false);
  t.equal(auto.count, 1);
  t.match(auto.lines, [[/not built/], [{ processes: 1, because: 'the addon is not built' }, 'PROCESSES=auto']]);
  const one = counted({ processes: 1, processesBecause: null, scanThreads: 2 }, false);
  t.equal(one.count, 1);
  t.equal(one.lines.length, 1);
  t.throws(() => counted({ processes: 3, processesBecause: null, scanThreads: 2 }, false), /needs the native addon/);
});

t.test('PROCESSES=auto: the log says what was chosen, and the server gets the number', async (t) => {
  const server = await startServer({ isSupervised: true, env: { PROCESSES: 'auto', CORE_DUMPS: 'on' } });
  t.teardown(() => server.stop('SIGKILL'));
  await server.printed(
    /"processes":(1),"because":"(?:cores|REDIS_URL is not set)","scanThreads":\d+,"msg":"PROCESSES=auto"/,
  );
  // Only a process that may dump its core shows it to a user who isn't root.
  const environment = readFileSync(`/proc/${server.serverPid()}/environ`, 'utf8').split('\0');
  t.ok(environment.includes('PROCESSES=1'));
  t.equal(await server.stop(), 0);
});
