// Newer signatures without anybody's word: a while after the start, again and again, one at a time, and told to who listens.
import t from 'tap';
import { createUpdater } from '../../src/supervisor/kept.js';
import { until } from '../fixtures/until.js';

const command = (program: string): [string, ...string[]] => [process.execPath, '-e', program];

t.test('it is done after a while, again and again, and failures are in the log', async (t) => {
  const warnings: object[] = [];
  const log = { info: () => undefined, warn: (fields: object) => void warnings.push(fields) };
  const states: string[] = [];
  const updater = createUpdater({
    log,
    everyMs: 50,
    firstMs: 1,
    command: command("console.log('no mirror'); process.exitCode = 2"),
  });
  updater.onChange(({ state }) => void states.push(state));
  await until(() => states.filter((state) => state === 'failed').length >= 2);
  await updater.stop();
  t.match(warnings[0], { lines: ['no mirror'] });
  t.equal(states[0], 'running');
});

t.test('it is not done by itself where nobody wants it, and one at a time when told', async (t) => {
  const updater = createUpdater({
    log: { info: () => undefined, warn: () => undefined },
    everyMs: null,
    firstMs: 1,
    command: command('setTimeout(() => undefined, 100)'),
  });
  t.equal(updater.view().state, 'idle');
  t.equal(updater.start(), true);
  t.equal(updater.start(), false);
  await until(() => updater.view().state === 'done');
  await updater.stop();
});
