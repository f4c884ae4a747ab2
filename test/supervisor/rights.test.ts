// What a server process may do: of root's capabilities none but the few that it has a use for, now and after each handover.
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { childrenOf } from '../fixtures/processes.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

/** CAP_DAC_READ_SEARCH and CAP_SYS_NICE; a process that isn't root's has none. */
const LEFT = process.getuid?.() === 0 ? (1n << 2n) | (1n << 23n) : 0n;

interface Rights {
  readonly effective: bigint;
  readonly bounding: bigint;
  readonly canGainNone: boolean;
}

/** Of every thread: each has its own. */
function rightsOf(pid: number): Rights[] {
  return readdirSync(`/proc/${pid}/task`).map((task) => {
    const status = readFileSync(`/proc/${pid}/task/${task}/status`, 'latin1');
    const field = (name: string): string => new RegExp(`^${name}:\\s*(\\S+)$`, 'm').exec(status)?.[1] ?? '';
    return {
      effective: BigInt(`0x${field('CapEff')}`),
      bounding: BigInt(`0x${field('CapBnd')}`),
      canGainNone: field('NoNewPrivs') === '1',
    };
  });
}

const isRoot = process.getuid?.() === 0;

t.test('every thread of a process that scans has lost them, also after a handover and a reload', async (t) => {
  const server = await startServer({ t, isSupervised: true, env: { SCAN_THREADS: '2' } });

  async function scansWithoutRights(): Promise<void> {
    t.equal((await upload(server.url, 'some text')).status, 200);
    const rights = rightsOf(server.serverPid());
    t.ok(rights.length > 2);
    for (const { effective, bounding, canGainNone } of rights) {
      t.equal(effective & ~LEFT, 0n);
      if (isRoot) t.equal(bounding & ~LEFT, 0n);
      if (isRoot) t.ok(canGainNone);
    }
  }

  await scansWithoutRights();
  process.kill(server.serverPid(), 'SIGHUP');
  await server.printed(/("epoch":2[^\n]*"msg":"signatures loaded")/);
  await scansWithoutRights();

  const before = server.serverPid();
  process.kill(server.pid, 'SIGUSR2');
  await until(() => !childrenOf(server.pid).includes(before));
  await scansWithoutRights();
  t.notMatch(server.output(), "keep root's capabilities");
  t.match(await (await fetch(`${server.url}/readyz`)).json(), { status: 'ready', store: { status: 'ready' } });
});

t.test('who can not take them away says so', async (t) => {
  const server = await startServer({ t });
  t.equal(server.output().includes("the process that scans has root's capabilities"), isRoot);
});
