// The progress of a load with all that comes before it: one number that rises, also where a part is done anew.
import { appendFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { buildClamav } from '../../../src/engine/clamav/engine.js';
import { temporaryFolder } from '../../fixtures/folder.js';
import { databaseFolder } from '../../native/engine.js';

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');

t.test(
  'progress rises to 1 while gates are made, with gates that are known, and where they turn out to be no good',
  async (t) => {
    const lines = Array.from(
      { length: 3_000 },
      (_, index) => `Test.${index};Engine:81-255,Target:0;0;${hex(`literal ${index * 7919} of its own`)}\n`,
    );
    const directory = databaseFolder(t, { 'a.ldb': lines.join('') });
    const gatesDirectory = temporaryFolder(t);
    const temporaryDirectory = temporaryFolder(t);
    const loaded = async (what: string) => {
      const steps: number[] = [];
      const { engine } = await buildClamav({
        directories: [directory],
        temporaryDirectory,
        gatesDirectory,
        scanTimeoutMs: 60_000,
        onProgress: (fraction) => steps.push(fraction),
      });
      for (const [index, step] of steps.entries()) t.ok(step >= (steps[index - 1] ?? 0), `${what}: ${step}`);
      t.equal(steps.at(-1), 1, what);
      return { steps, warnings: engine.warnings };
    };

    const made = await loaded('made');
    t.same(made.warnings, []);
    t.ok(made.steps.filter((step) => step < 0.7).length > 3_000 / 64, 'all of the making is in it');
    const known = await loaded('known');
    t.same(known.warnings, []);
    t.ok((known.steps[0] ?? 1) < 0.1, 'nothing was to be made');
    for (const name of readdirSync(gatesDirectory)) {
      appendFileSync(join(gatesDirectory, name, 'share-1.ldb'), 'not a signature\n');
    }
    t.match((await loaded('no good')).warnings, [/without gates/]);
  },
);
