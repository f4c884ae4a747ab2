// Coarse timers: each calls back once and not before its time, unless it is stopped.
import { spawnSync } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { startCoarseTimer } from '../../src/waiting/coarse-timer.js';

t.test('a timer calls back once, and never too early', async (t) => {
  const startedMs = performance.now();
  let calls = 0;
  await new Promise<void>((resolve) => {
    startCoarseTimer(30, () => {
      calls += 1;
      resolve();
    });
  });
  t.ok(performance.now() - startedMs >= 30);
  await new Promise<void>((resolve) => void startCoarseTimer(50, resolve));
  t.equal(calls, 1);
});

t.test('a timer that is stopped does not call back, also when another one stops it in the same tick', async (t) => {
  const called: string[] = [];
  const stopped = startCoarseTimer(1, () => called.push('stopped'));
  stopped.stop();
  stopped.stop();
  await new Promise<void>((resolve) => {
    startCoarseTimer(1, () => {
      called.push('first');
      second.stop();
      resolve();
    });
    const second = startCoarseTimer(1, () => called.push('second'));
  });
  await new Promise<void>((resolve) => void startCoarseTimer(1, resolve));
  t.strictSame(called, ['first']);
});

t.test('a timer that is begun by another one has its whole time', async (t) => {
  const order: string[] = [];
  await new Promise<void>((resolve) => {
    startCoarseTimer(0, () => {
      order.push('outer');
      startCoarseTimer(0, () => {
        order.push('inner');
        resolve();
      });
      order.push('begun');
    });
  });
  t.strictSame(order, ['outer', 'begun', 'inner']);
});

t.test('a timer that is begun behind a longer one does not wait for it', async (t) => {
  const long = startCoarseTimer(3_600_000, () => t.fail('an hour has not passed'));
  await new Promise<void>((resolve) => void startCoarseTimer(20, resolve));
  long.stop();
  await new Promise<void>((resolve) => void startCoarseTimer(20, resolve));
});

t.test('a process with a timer that goes waits for it, and with one that was stopped it ends', (t) => {
  const module = JSON.stringify(new URL('../../src/waiting/coarse-timer.js', import.meta.url));
  const program = `
    import { startCoarseTimer } from ${module};
    startCoarseTimer(3_600_000, () => undefined).stop();
    startCoarseTimer(40, () => process.stdout.write('due'));`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  t.match(ended, { status: 0, stdout: 'due' });
  t.end();
});

t.test('while timers go that are not due, nothing looks at them', (t) => {
  const module = JSON.stringify(new URL('../../src/waiting/coarse-timer.js', import.meta.url));
  const program = `
    let begun = 0;
    for (const name of ['setTimeout', 'setInterval']) {
      const begin = globalThis[name];
      globalThis[name] = (call, ...rest) => begin(() => { begun += 1; call(); }, ...rest);
    }
    const { startCoarseTimer } = await import(${module});
    const long = startCoarseTimer(3_600_000, () => undefined);
    startCoarseTimer(1_000, () => { long.stop(); process.stdout.write(String(begun)); });`;
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  t.equal(ended.status, 0, ended.stderr);
  // One that goes off a moment too early is there twice.
  t.ok(Number(ended.stdout) <= 3, ended.stdout);
  t.end();
});
