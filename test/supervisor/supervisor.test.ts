// The supervisor over real processes: when it starts the server anew, when not, and that it never leaves one behind.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { type Running, start } from '../fixtures/command.js';
import { temporaryFolder } from '../fixtures/folder.js';

const BACK_OFF = { firstMs: 1, limitMs: 4, servedLimitMs: 2, healthyMs: 60_000 };

const childPath = fileURLToPath(new URL('./child.js', import.meta.url));
const parentPath = fileURLToPath(new URL('./parent.js', import.meta.url));

/** A supervisor whose server does in its first run what the first line of the plan says, and so on. */
function supervisor(
  t: Test,
  plan: readonly string[],
  options: {
    command?: string;
    backOff?: typeof BACK_OFF;
    sameRequestMs?: number;
    startMs?: number;
    processes?: number;
    hasMemoryKills?: boolean;
  } = {},
): Running {
  const folder = temporaryFolder(t);
  const supervised = {
    command: options.command ?? process.execPath,
    arguments: [childPath, folder, ...plan],
    backOff: options.backOff ?? BACK_OFF,
    sameRequestMs: options.sameRequestMs ?? 0,
    startMs: options.startMs ?? 30_000,
    processes: options.processes ?? 1,
    hasMemoryKills: options.hasMemoryKills ?? false,
  };
  return start(t, parentPath, [JSON.stringify(supervised)]);
}

/** The lines of the supervisor's log that have the field. */
function logged(stdout: string, field: string): unknown[] {
  return stdout
    .split('\n')
    .filter((line) => line.includes(`"${field}"`))
    .map((line) => JSON.parse(line)[field]);
}

/** Ends in order. Resolves with what it has printed. */
async function stopped(t: Test, running: Running): Promise<string> {
  running.process.kill('SIGTERM');
  const { code, stdout } = await running.ended;
  t.equal(code, 0);
  return stdout;
}

async function serverPid(running: Running): Promise<number> {
  return JSON.parse(await running.line('"ready"')).pid;
}

t.test('a server that crashes is started again at once, then with delays that double up to their limit', async (t) => {
  const { code, stdout } = await supervisor(t, ['exit3', 'killed', 'exit3', 'killed', 'exit3', 'exit78']).ended;
  t.equal(code, 78);
  t.same(logged(stdout, 'delayMs'), [0, 1, 2, 4, 4]);
  t.same(logged(stdout, 'exitCode'), [3, 3, 3, 78]);
  t.same(logged(stdout, 'signal'), ['SIGKILL', 'SIGKILL']);
});

t.test('a server that aborts before it has said anything had no thread: the log says what bounds them', async (t) => {
  const { stdout } = await supervisor(t, ['aborts', 'exit78']).ended;
  t.match(logged(stdout, 'reason'), [/no further thread or process .*TasksMax=/]);
});

t.test('after a healthy life the delays begin anew', async (t) => {
  const running = supervisor(t, ['exit3', 'exit3', 'serve', 'exit78'], { backOff: { ...BACK_OFF, healthyMs: 0 } });
  process.kill(await serverPid(running), 'SIGKILL');
  t.same(logged((await running.ended).stdout, 'delayMs'), [0, 1, 0]);
});

t.test('a life that was never ready does not count as healthy', async (t) => {
  const running = supervisor(t, ['exit3', 'exit3', 'exit78'], { backOff: { ...BACK_OFF, healthyMs: 0 } });
  t.same(logged((await running.ended).stdout, 'delayMs'), [0, 1]);
});

t.test('one that had served is waited with for less: it is content that crashes it', async (t) => {
  const { stdout } = await supervisor(t, [...Array.from({ length: 5 }, () => 'servedThen3'), 'exit78']).ended;
  t.same(logged(stdout, 'delayMs'), [0, 1, 2, 2, 2]);
});

t.test('one that dies while it loads has not served: it would read a large database in a loop', async (t) => {
  const { stdout } = await supervisor(t, [...Array.from({ length: 5 }, () => 'readyThen3'), 'exit78']).ended;
  t.same(logged(stdout, 'delayMs'), [0, 1, 2, 4, 4]);
});

t.test('after a server that the kernel has killed for memory, the wait is that of a lack of memory', async (t) => {
  const actions = [...Array.from({ length: 5 }, () => 'servedThenKilled'), 'exit78'];
  const { stdout } = await supervisor(t, actions, { hasMemoryKills: true }).ended;
  t.same(logged(stdout, 'delayMs'), [0, 1, 2, 4, 4]);
  t.match(logged(stdout, 'reason')[0], /^the kernel killed it, since memory ran out$/);
});

t.test('one that somebody else has killed is waited with no longer than after a crash', async (t) => {
  const { stdout } = await supervisor(t, [...Array.from({ length: 5 }, () => 'servedThenKilled'), 'exit78']).ended;
  t.same(logged(stdout, 'delayMs'), [0, 1, 2, 2, 2]);
  t.same(logged(stdout, 'reason'), []);
});

t.test('what was being scanned is suspected of the signals of a fault, and of no others', async (t) => {
  const { stdout } = await supervisor(t, ['segv', 'killed', 'abort', 'exit3', 'sandboxed', 'exit78']).ended;
  t.same(logged(stdout, 'suspected'), [true, false, true, false, true, false]);
});

for (const [action, code] of [
  ['exit78', 78],
  ['exit69', 69],
] as const) {
  t.test(`a server whose first start ends with ${code} is not started again`, async (t) => {
    const ended = await supervisor(t, [action, 'exit3']).ended;
    t.equal(ended.code, code);
    t.same(logged(ended.stdout, 'delayMs'), []);
  });
}

t.test('a server that was ready once is started again when it can not start for a while', async (t) => {
  const ended = await supervisor(t, ['readyThen69', 'exit69', 'exit78']).ended;
  t.equal(ended.code, 78);
  t.same(logged(ended.stdout, 'delayMs'), [0, 1]);
});

t.test(
  'where one of several servers has been ready, another one that can not start for a while is started again',
  async (t) => {
    const running = supervisor(t, ['serve', 'loads', 'exit69', 'exit78'], { processes: 2 });
    await serverPid(running);
    process.kill(JSON.parse(await running.line('"loads"')).pid, 'SIGKILL');
    const ended = await running.ended;
    t.equal(ended.code, 78);
    t.same(logged(ended.stdout, 'delayMs'), [0, 1]);
  },
);

t.test('a server that ends with 0, though nobody has asked it to, is started again', async (t) => {
  const ended = await supervisor(t, ['exit0', 'exit0', 'exit78']).ended;
  t.equal(ended.code, 78);
  t.same(logged(ended.stdout, 'delayMs'), [0, 1]);
});

t.test('a wrong configuration ends a server that was ready once, too', async (t) => {
  t.equal((await supervisor(t, ['readyThen69', 'exit78', 'exit0']).ended).code, 78);
});

t.test('a command that does not exist ends the supervisor', async (t) => {
  const ended = await supervisor(t, [], { command: '/nonexistent/command' }).ended;
  t.equal(ended.code, 71);
  t.match(ended.stdout, 'ENOENT');
});

t.test('a server that the system refuses to start leaves nothing open', async (t) => {
  const modules = ['log', 'supervisor/supervisor', 'supervisor/kept'].map((name) =>
    fileURLToPath(new URL(`../../src/${name}.js`, import.meta.url)),
  );
  // Longer than Linux lets an argument be (execve(2)): spawn throws, as it does where there is no memory.
  const script = `const { readdirSync, readlinkSync } = await import('node:fs');
    const [{ createLog }, { supervise }, { createSuspects }] = await Promise.all(${JSON.stringify(modules)}.map((path) => import(path)));
    const { log, flush } = createLog('info');
    const suspects = createSuspects({ dataDirectory: '/nonexistent', log, now: Date.now });
    const code = await supervise({ command: process.execPath, arguments: ['a'.repeat(200_000)], suspects, log });
    await flush();
    const links = readdirSync('/proc/self/fd').map((fd) => { try { return readlinkSync('/proc/self/fd/' + fd); } catch { return ''; } });
    console.log(JSON.stringify({ code, shared: links.filter((link) => link.includes('memfd')).length }));
    process.exit();`;
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  t.match(out, 'E2BIG');
  t.match(out, '{"code":71,"shared":0}');
});

t.test('SIGHUP is an order to the server to read its signatures again, which goes on', async (t) => {
  const running = supervisor(t, ['serve']);
  await serverPid(running);
  for (let time = 0; time < 2; time += 1) {
    running.process.kill('SIGHUP');
    await running.line('"event":"reload"');
  }
  await stopped(t, running);
});

t.test('SIGHUP ends no server that does not listen to signals yet', async (t) => {
  const running = supervisor(t, ['servedThen3', 'loads', 'exit0']);
  await running.line('"event":"loads"');
  running.process.kill('SIGHUP');
  running.process.kill('SIGTERM');
  t.equal((await running.ended).code, 0);
});

t.test('a server that ends with 0 after a SIGHUP is started again', async (t) => {
  const running = supervisor(t, ['exits0OnReload', 'exit78']);
  await serverPid(running);
  running.process.kill('SIGHUP');
  t.equal((await running.ended).code, 78);
});

t.test('SIGTERM and SIGINT reach the server, whose exit code becomes the supervisor’s', async (t) => {
  for (const [signal, code] of [
    ['SIGTERM', 0],
    ['SIGINT', 5],
  ] as const) {
    const running = supervisor(t, ['serve', 'exit0']);
    await serverPid(running);
    running.process.kill(signal);
    const ended = await running.ended;
    t.equal(ended.code, code, signal);
    t.match(ended.stdout, `"event":"${signal}"`);
  }
});

t.test('a server that dies of the signal passed on to it is not started again', async (t) => {
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    const running = supervisor(t, ['dieOfSignals', 'exit0']);
    await serverPid(running);
    running.process.kill(signal);
    t.equal((await running.ended).code, code, signal);
  }
});

t.test('a stop that reaches a server before it listens to signals is a stop like others', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const running = supervisor(t, ['loads', 'exit0']);
    await running.line('"event":"loads"');
    running.process.kill(signal);
    const ended = await running.ended;
    t.equal(ended.code, 0, signal);
    t.notMatch(ended.stdout, 'server ended');
  }
});

t.test('a second stop signal kills a server that does not stop', async (t) => {
  for (const second of ['SIGTERM', 'SIGINT'] as const) {
    const running = supervisor(t, ['ignoreSignals', 'exit0']);
    await serverPid(running);
    running.process.kill('SIGTERM');
    await running.line('"event":"SIGTERM"');
    running.process.kill(second);
    t.equal((await running.ended).code, 137, second);
  }
});

t.test('a stop signal that comes twice at once, as through npm, kills nothing', async (t) => {
  const running = supervisor(t, ['ignoreSignals', 'exit0'], { sameRequestMs: 1e8 });
  const pid = await serverPid(running);
  for (let time = 0; time < 3; time += 1) running.process.kill('SIGINT');
  await running.line('"event":"SIGINT"');
  // One that is passed on shows that all before it have been dealt with.
  running.process.kill('SIGHUP');
  await running.line('"event":"reload"');
  process.kill(pid, 'SIGKILL');
  t.notMatch((await running.ended).stdout, 'killing the server');
});

t.test('a stop while a restart is waited for ends the supervisor at once, with the code of the crash', async (t) => {
  const running = supervisor(t, ['exit3', 'exit3', 'exit0'], { backOff: { ...BACK_OFF, firstMs: 1e8, limitMs: 1e8 } });
  await running.line('"delayMs":100000000');
  running.process.kill('SIGTERM');
  t.equal((await running.ended).code, 3);
});

t.test(
  'on SIGUSR2 another server gets ready, the old one hands over and ends, and only then the new one serves',
  async (t) => {
    const running = supervisor(t, ['retires', 'takesOver']);
    const old = await serverPid(running);
    running.process.kill('SIGUSR2');
    for (const event of ['preparing', 'retire', 'serve']) await running.line(`"event":"${event}"`);
    t.not(await serverPid(running), old);
    await stopped(t, running);
  },
);

t.test('a server that asks for it is replaced, and what fails to get ready leaves it in place', async (t) => {
  const running = supervisor(t, ['requestsReplacement', 'exit3', 'takesOver']);
  await serverPid(running);
  t.match(await running.line('the new process failed, the old one goes on'), '"exitCode":3,"todo":"its own lines');
  running.process.kill('SIGHUP');
  await running.line('"event":"retire"');
  await running.line('"event":"serve"');
  await serverPid(running);
  await stopped(t, running);
  const short = supervisor(t, ['requestsReplacement', 'killed'], { hasMemoryKills: true });
  const failed = await short.line('the new process failed, the old one goes on');
  t.match(failed, /memory ran out","todo":"both processes are in memory/);
  await stopped(t, short);
});

t.test('a server that does not understand how it is to start is one that failed', async (t) => {
  const options = { startMs: 3_000 };
  const replaced = supervisor(t, ['requestsReplacement', 'loads'], options);
  const first = supervisor(t, ['servedThen3', 'loads', 'exit78'], options);
  t.match(await replaced.line('the new process failed, the old one goes on'), '"signal":"SIGKILL"');
  replaced.process.kill('SIGTERM');
  t.match(await replaced.ended, { code: 0, stdout: /or too slow: killing it/ });
  const { code, stdout } = await first.ended;
  t.equal(code, 78);
  t.same(logged(stdout, 'signal'), ['SIGKILL']);
});

t.test('a server that dies while its successor gets ready is replaced at once', async (t) => {
  const running = supervisor(t, ['serve', 'takesOverSlowly']);
  const old = await serverPid(running);
  running.process.kill('SIGUSR2');
  await running.line('"event":"preparing"');
  process.kill(old, 'SIGKILL');
  await running.line('"event":"serve"');
  await serverPid(running);
  const stdout = await stopped(t, running);
  t.same(logged(stdout, 'delayMs'), []);
});

t.test('one that took the place of a dead server and ends with 0 is not the last one', async (t) => {
  const running = supervisor(t, ['serve', 'takesOverSlowlyAndEnds', 'serve']);
  const old = await serverPid(running);
  running.process.kill('SIGUSR2');
  await running.line('"event":"preparing"');
  process.kill(old, 'SIGKILL');
  await serverPid(running);
  const stdout = await stopped(t, running);
  t.match(stdout, 'server ended, the one that was to replace it serves');
});

t.test('a new server that dies is replaced while the old one still answers what it had', async (t) => {
  const running = supervisor(t, ['retiresAndStays', 'takesOverAndDies', 'takesOver']);
  const old = await serverPid(running);
  running.process.kill('SIGUSR2');
  await running.line('"event":"preparing"');
  await running.line('"event":"serve"');
  t.not(await serverPid(running), old);
  // It is there still; with its end the last one is alone.
  process.kill(old, 'SIGTERM');
  await running.line('"event":"alone"');
  await stopped(t, running);
});

t.test('a replaced server is killed when it has not ended within the time that it has named', async (t) => {
  const running = supervisor(t, ['retiresAndHangs', 'takesOver']);
  await serverPid(running);
  running.process.kill('SIGUSR2');
  await running.line('"event":"alone"');
  const stdout = await stopped(t, running);
  t.match(stdout, 'a process that was to end did not: killing it');
  t.same(logged(stdout, 'suspected'), [false, false]);
});

t.test('one that dies instead of handing over is replaced all the same', async (t) => {
  const running = supervisor(t, ['diesOfRetire', 'takesOver']);
  const old = await serverPid(running);
  running.process.kill('SIGUSR2');
  t.not(await serverPid(running), old);
  const stdout = await stopped(t, running);
  t.same(logged(stdout, 'delayMs'), []);
});

t.test('a replacement waits for the end of the process that was replaced before: there is room for two', async (t) => {
  const running = supervisor(t, ['retiresAndStays', 'takesOver', 'takesOver']);
  const old = await serverPid(running);
  running.process.kill('SIGUSR2');
  await running.line('"msg":"replaced"');
  running.process.kill('SIGUSR2');
  await running.line('the process that was replaced before is still there');
  process.kill(old, 'SIGTERM');
  await running.line('"event":"preparing"');
  await stopped(t, running);
});

for (const [first, may] of [
  ['standsIn', true],
  ['requestsReplacement', false],
] as const) {
  t.test(`a stand-in may take over from ${first}: ${may}`, async (t) => {
    const running = supervisor(t, [first, 'takesOver']);
    t.match(JSON.parse(await running.line('"event":"start"')), { takesOver: true, mayStandIn: may });
    await serverPid(running);
    await stopped(t, running);
  });
}

t.test(
  'a server that asks to be restarted ends before the next one starts: at once, and later if it asks again',
  async (t) => {
    const running = supervisor(t, ['wantsRestart', 'wantsRestart', 'wantsRestart', 'wantsRestart', 'serve']);
    for (let time = 0; time < 4; time += 1) {
      await running.line('"event":"ready"');
      await running.line('"event":"retire"');
    }
    await serverPid(running);
    const stdout = await stopped(t, running);
    t.same(logged(stdout, 'delayMs'), [0, 1, 2, 4], 'it is no crash, but a loop all the same');
    t.same(new Set(logged(stdout, 'suspected')), new Set([false]));
    t.same(logged(stdout, 'hasSuccessor'), [false, false, false, false], 'nobody serves until it has ended');
  },
);

t.test('of several servers each is started and replaced, and all are stopped', async (t) => {
  const running = supervisor(t, ['retires', 'retires', 'takesOver', 'takesOver'], { processes: 2 });
  const old = new Set([await serverPid(running), await serverPid(running)]);
  t.equal(old.size, 2);
  running.process.kill('SIGUSR2');
  const fresh = new Set([await serverPid(running), await serverPid(running)]);
  t.equal(new Set([...old, ...fresh]).size, 4);
  const stdout = await stopped(t, running);
  t.equal(stdout.split('"event":"SIGTERM"').length, 3);
});

t.test('who asks for a replacement while one is under way has another one, of one server at a time', async (t) => {
  const plan = ['retires', 'retires', 'takesOverSlowly', ...Array(3).fill('takesOverAndRetires')];
  const running = supervisor(t, plan, { processes: 2 });
  await serverPid(running);
  await serverPid(running);
  running.process.kill('SIGUSR2');
  const first = JSON.parse(await running.line('"event":"preparing"'));
  running.process.kill('SIGUSR2');
  await running.line('a replacement is under way: another one follows');
  // It gives up.
  process.kill(first.pid, 'SIGKILL');
  await running.line('the new process failed, the old one goes on');
  for (let round = 0; round < 3; round += 1) await running.line('"msg":"replaced"');
  const stdout = await stopped(t, running);
  t.equal(stdout.split('replacing the server process').length, 5, 'four were begun');
});

t.test('a replacement that is asked for twice at once, as through npm, is one', async (t) => {
  const running = supervisor(t, ['retires', 'takesOver', 'takesOver'], { sameRequestMs: 1e8 });
  await serverPid(running);
  for (let time = 0; time < 2; time += 1) running.process.kill('SIGUSR2');
  await running.line('"msg":"replaced"');
  running.process.kill('SIGHUP');
  await running.line('"event":"reload"');
  t.equal((await stopped(t, running)).split('replacing the server process').length, 2);
});

t.test('a supervisor that is killed leaves no server behind', async (t) => {
  const running = supervisor(t, ['serve']);
  await serverPid(running);
  running.process.kill('SIGKILL');
  // Resolves only when nobody holds the output open any more: the server has ended too.
  const ended = await running.ended;
  t.equal(ended.signal, 'SIGKILL');
  t.match(ended.stdout, '"event":"disconnected"');
});
