// What the help says of a variable's bounds is what is refused.
import t from 'tap';
import { environment } from '../../src/config/variables.js';
import { problemsOf } from './problems.js';

t.test('bounds are those that the help says', (t) => {
  const isRefused = (name: string, value: number): boolean =>
    problemsOf({ [name]: String(value) }).some((problem) =>
      /^\w+ must be (at (least|most)|auto or .*) \d+$/.test(problem),
    );
  let bounds = 0;
  for (const { name, about } of environment) {
    const [said = ''] = about.split('; unset');
    const least = /(\d+) to \d+(?! characters)\b|\bfrom (\d+)/.exec(said)?.slice(1).find(Boolean);
    const most = /\bto (\d+)(?! characters)\b/.exec(said)?.[1];
    for (const [bound, beyond] of [
      [least, -1],
      [most, 1],
    ] as const) {
      if (bound === undefined) continue;
      bounds += 1;
      t.notOk(isRefused(name, Number(bound)), `${name}=${bound}`);
      if (bound !== '0') t.ok(isRefused(name, Number(bound) + beyond), `${name} beyond ${bound}`);
    }
  }
  t.ok(bounds > 30, `${bounds}`);
  t.end();
});
