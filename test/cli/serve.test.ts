// `sluice serve` as it is run: supervisor, server process and service together, over signals, crashes and a second start.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { codeOf } from '../../src/error-text.js';
import { mainPath, ownSignaturesDirectory } from '../../src/paths.js';
import { type Running, start } from '../fixtures/command.js';
import { accountIn, readFirstAccount } from '../fixtures/first-account.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { databaseOf, serverOf } from '../fixtures/processes.js';
import { eicar } from '../fixtures/samples.js';
import { until } from '../fixtures/until.js';

// One data folder for all: an embedded database takes most of a second to make.
const dataDirectory = temporaryFolder(t);

const settings = {
  PORT: '0',
  DATA_DIR: dataDirectory,
  SIGNATURES_DIR: ownSignaturesDirectory,
  SCAN_THREADS: '1',
};

function serve(t: Test, env: Readonly<Record<string, string>> = {}): Running {
  return start(t, mainPath, ['serve'], { env: { ...settings, ...env } });
}

async function listening(running: Running): Promise<number> {
  return JSON.parse(await running.line('"listening"')).port;
}

/** Asks until scans are served. */
async function ready(origin: string): Promise<void> {
  await until(async () => (await fetch(`${origin}/readyz`)).ok);
}

function serverPid({ process: { pid } }: Running): number {
  return serverOf(pid ?? 0);
}

/** How much of its memory a crash may leave in a file: of the supervisor, and of the server. */
function coreLimits(running: Running): (string | undefined)[] {
  return [running.process.pid, serverPid(running)].map(
    (pid) => /^Max core file size +(\S+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))?.[1],
  );
}

/** sched(7): SCHED_OTHER and SCHED_BATCH. */
const OTHER = 0;
const BATCH = 3;

/** How the kernel schedules a thread, from proc(5): the 41st field, behind a name in brackets. */
function policyOf(path: string): number {
  return Number(readFileSync(`${path}/stat`, 'utf8').split(') ')[1]?.split(' ')[38]);
}

function policiesOf(pid: number, { butMain }: { butMain: boolean }): number[] {
  const threads = readdirSync(`/proc/${pid}/task`).filter((tid) => !butMain || tid !== String(pid));
  return threads.map((tid) => policyOf(`/proc/${pid}/task/${tid}`));
}

t.test(
  'the first start makes an account whose key works and stays out of the log, and SIGTERM ends it with 0',
  async (t) => {
    // Without a switch, as an operator starts it; with a umask that takes all rights from each folder that is made.
    const umask = process.umask(0o777);
    const running = start(t, mainPath, ['serve'], { env: settings });
    process.umask(umask);
    const { key, url, mode, path } = readFirstAccount(await running.line('first-account.txt'));
    t.equal(mode, 0o600);
    t.equal(dirname(path), settings.DATA_DIR);
    // Asked, not read off the log: which of the two lines comes first is open.
    await ready(new URL(url).origin);
    const body = new FormData();
    body.set('file', new Blob([eicar()]), 'eicar.com');
    const response = await fetch(url, { method: 'POST', headers: { 'X-API-KEY': key }, body });
    t.equal(response.status, 200);
    t.match(await response.json(), { filename: 'eicar.com', infected: true });
    running.process.kill('SIGTERM');
    const { code, stdout } = await running.ended;
    t.equal(code, 0);
    t.notMatch(stdout, key);
  },
);

t.test('on a terminal the first start shows the account there, and leaves no file', async (t) => {
  const directory = temporaryFolder(t);
  const env = { PATH: process.env['PATH'], ...settings, DATA_DIR: join(directory, 'data') };
  // A terminal of its own, from util-linux; what it shows is on the stdout that we have.
  const terminal = spawn('script', ['-qec', `${process.execPath} ${mainPath} serve`, '/dev/null'], { env });
  t.teardown(() => terminal.kill('SIGKILL'));
  let shown = '';
  const { key, url } = await new Promise<ReturnType<typeof accountIn>>((resolve) => {
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
      const account = accountIn(shown);
      if (account.url !== '') resolve(account);
    });
  });
  t.notOk(existsSync(join(env.DATA_DIR, 'first-account.txt')));
  const wrong = await fetch(url, { method: 'POST', headers: { 'X-API-KEY': key } });
  t.equal(wrong.status, 415, 'the key is accepted');
  // Ctrl-C, as somebody would type it: a signal to `script` would leave the server behind.
  terminal.stdin.write('\x03');
  await once(terminal, 'close');
});

t.test('neither a SIGHUP nor a SIGUSR2 ends a service that has just begun', async (t) => {
  const running = serve(t, { DATA_DIR: join(dataDirectory, 'of-signals') });
  // proc_pid_status(5): it catches one of the two. Its lines come later, when the database may be there.
  const status = `/proc/${running.process.pid}/status`;
  const caught = () => BigInt(`0x${/^SigCgt:\s*(\w+)$/m.exec(readFileSync(status, 'latin1'))?.[1] ?? 0}`);
  await until(() => (caught() & 0x801n) !== 0n);
  for (const signal of ['SIGUSR2', 'SIGHUP'] as const) running.process.kill(signal);
  await listening(running);
  running.process.kill('SIGTERM');
  t.equal((await running.ended).code, 0);
});

// One server for what leaves it as it was; the last test stops it.
t.test('a server that goes on', async (t) => {
  const running = serve(t, { SIGNATURES_POLL_SECONDS: '0' });
  const origin = `http://127.0.0.1:${await listening(running)}`;
  await ready(origin);

  t.test('the thread that serves comes first: what computes takes no core from it', async (t) => {
    const pid = serverPid(running);
    t.equal(policyOf(`/proc/${pid}`), OTHER);
    // V8's threads, and the scan thread.
    const others = policiesOf(pid, { butMain: true });
    t.ok(others.filter((policy) => policy === BATCH).length >= 5, others.join());
    const supervisor = running.process.pid ?? 0;
    t.equal(policyOf(`/proc/${supervisor}`), OTHER);
    t.equal(policyOf(`/proc/${databaseOf(supervisor)}`), BATCH, 'rows are written behind the answers');
  });

  t.test('it has an arena of memory for its scan thread and two more, or as many as are asked for', async (t) => {
    const arenas = (one: Running): string | undefined =>
      /\0MALLOC_ARENA_MAX=(\d+)\0/.exec(`\0${readFileSync(`/proc/${serverPid(one)}/environ`, 'utf8')}`)?.[1];
    t.equal(arenas(running), '3');
    const other = serve(t, { MALLOC_ARENA_MAX: '7', DATA_DIR: join(dataDirectory, 'of-arenas') });
    await listening(other);
    t.equal(arenas(other), '7');
  });

  t.test('a crash leaves no file of the memory, unless it is asked for', async (t) => {
    t.same(coreLimits(running), ['0', '0']);
    const other = serve(t, { CORE_DUMPS: 'on', DATA_DIR: join(dataDirectory, 'of-core-dumps') });
    await listening(other);
    const own = /^Max core file size +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    t.same(coreLimits(other), [own, own]);
  });

  t.test('SIGUSR2 to the server process does nothing', async (t) => {
    process.kill(serverPid(running), 'SIGUSR2');
    t.equal((await fetch(`${origin}/livez`)).status, 200);
  });

  t.test('SIGUSR1 opens no debugger', async (t) => {
    const { pid = 0, stderr } = running.process;
    for (const one of [pid, serverPid(running)]) {
      // Where Node opens one, it says so there.
      const said = Promise.race([running.line('SIGUSR1'), once(stderr ?? running.process, 'data').then(String)]);
      process.kill(one, 'SIGUSR1');
      t.match(await said, '"SIGUSR1 does nothing');
    }
  });

  t.test('SIGHUP reads the signatures again, and the service goes on', async (t) => {
    const epoch = async (): Promise<number> => Object(await (await fetch(`${origin}/readyz`)).json()).engine.epoch;
    const first = await epoch();
    running.process.kill('SIGHUP');
    await until(async () => (await epoch()) !== first);
    t.equal(await epoch(), first + 1);
    t.equal((await fetch(`${origin}/livez`)).status, 200);
  });

  t.test('a data folder that another one has ends it with 69 and the reason', async (t) => {
    const { code, stdout } = await serve(t).ended;
    t.equal(code, 69);
    t.match(stdout, 'is in use by the process');
  });

  t.test('a stop signal to both processes, as a terminal sends it, is one stop', async (t) => {
    const pid = serverPid(running);
    process.kill(pid, 'SIGINT');
    running.process.kill('SIGINT');
    const { code, stdout } = await running.ended;
    t.equal(code, 0);
    t.match(stdout, '"stopped"');
  });
});

t.test('a server process that is killed is started again, without printing an account', async (t) => {
  const running = serve(t);
  await listening(running);
  process.kill(serverPid(running), 'SIGKILL');
  await running.line('"server ended, restarting"');
  const port = await listening(running);
  t.equal((await fetch(`http://127.0.0.1:${port}/livez`)).status, 200);
  running.process.kill('SIGINT');
  const { code, stdout } = await running.ended;
  t.equal(code, 0);
  t.notMatch(stdout, 'X-API-KEY');
});

t.test('a scan thread takes no core from it where no supervisor has said so', async (t) => {
  const running = start(t, mainPath, ['serve', '--no-supervisor'], { env: settings });
  await ready(`http://127.0.0.1:${await listening(running)}`);
  const pid = running.process.pid ?? 0;
  t.equal(policyOf(`/proc/${pid}`), OTHER);
  t.ok(policiesOf(pid, { butMain: true }).includes(BATCH));
});

t.test('a supervisor that is killed takes the server with it: the port and the data folder are free', async (t) => {
  const running = serve(t);
  const port = await listening(running);
  running.process.kill('SIGKILL');
  const { stdout } = await running.ended;
  t.match(stdout, '"the supervisor is gone"');
  t.match(stdout, '"stopped"');
  await t.rejects(fetch(`http://127.0.0.1:${port}/livez`));
  await listening(serve(t, { PORT: String(port) }));
});

t.test('a data folder that takes nothing ends it with 69 and its name, with either database', async (t) => {
  for (const DATA_DIR of ['/proc/none', '/proc', '/dev/null']) {
    for (const env of [{ DATA_DIR }, { DATA_DIR, DATABASE_URL: 'postgres://127.0.0.1:1/none' }]) {
      const { code, stdout } = await serve(t, env).ended;
      t.equal(code, 69);
      t.match(stdout, `"The data directory ${DATA_DIR} can't be written: E`);
      t.notMatch(stdout, 'restarting');
    }
  }
});

t.test('a port in use ends it with 69 and the reason, without a restart', async (t) => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.teardown(() => other.close());
  const address = other.address();
  if (typeof address !== 'object' || address === null) throw new Error('It has no port');
  const { code, stdout } = await serve(t, { PORT: String(address.port) }).ended;
  t.equal(code, 69);
  t.match(stdout, '"the service could not start"');
  t.notMatch(stdout, 'restarting');
});

t.test('a reader of the log that leaves holds up neither the service nor its stop', async (t) => {
  const running = serve(t, { LOG_LEVEL: 'debug' });
  const port = await listening(running);
  const exited = once(running.process, 'exit');
  running.process.stdout?.destroy();
  // Lines that nobody will read.
  for (let line = 0; line < 100; line += 1) t.equal((await fetch(`http://127.0.0.1:${port}/livez`)).status, 200);
  running.process.kill('SIGTERM');
  t.strictSame(await exited, [0, null]);
});

/** Descriptors of a pipe that is open for reading, though nobody reads: what blocks when there is no room in it, and what doesn't. */
function pipeThatNobodyReads(t: Test): readonly [number, number] {
  const path = join(temporaryFolder(t), 'pipe');
  execFileSync('mkfifo', [path]);
  const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
  const [reader, filler, writer] = [O_RDONLY | O_NONBLOCK, O_WRONLY | O_NONBLOCK, O_WRONLY].map((flags) =>
    openSync(path, flags),
  );
  if (reader === undefined || filler === undefined || writer === undefined) throw new Error('There are three');
  t.teardown(() => {
    for (const descriptor of [reader, filler, writer]) closeSync(descriptor);
  });
  return [writer, filler];
}

/** Until no byte has room. */
function fill(descriptor: number): void {
  for (const bytes of [4096, 1]) {
    try {
      for (;;) writeSync(descriptor, Buffer.alloc(bytes, '\n'));
    } catch (error) {
      if (codeOf(error) !== 'EAGAIN') throw error;
    }
  }
}

t.test('a reader of the log that stalls holds up neither the service nor its stop', async (t) => {
  const [log, filler] = pipeThatNobodyReads(t);
  const port = String(await freePort());
  const env = { PATH: process.env['PATH'], ...settings, PORT: port, LOG_LEVEL: 'debug' };
  const child = spawn(process.execPath, [mainPath, 'serve'], { env, stdio: ['ignore', log, 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null))?.ok);
  fill(filler);
  // Lines that nobody will read.
  for (let line = 0; line < 100; line += 1) t.equal((await fetch(`http://127.0.0.1:${port}/livez`)).status, 200);
  child.kill('SIGTERM');
  t.strictSame(await exited, [0, null]);
});
