// One question for all who ask within a second, as for whether the database answers: its answer, its failure, and the wait for it.
import t from 'tap';
import { sharedFor } from '../../src/waiting/within.js';

t.test('all who ask while there is no answer, and for a second after it was asked for, share it', async (t) => {
  const answers: (() => void)[] = [];
  let nowMs = 0;
  const ping = sharedFor(
    1_000,
    () =>
      new Promise<void>((resolve) => {
        answers.push(resolve);
      }),
    () => nowMs,
  );
  const first = Array.from({ length: 2_000 }, () => ping());
  nowMs += 1_500;
  const late = ping();
  t.equal(answers.length, 1, 'one question, however old, until it has its answer');
  answers[0]?.();
  await Promise.all([...first, late]);
  const next = ping();
  t.equal(answers.length, 2);
  answers[1]?.();
  await next;
  nowMs += 999;
  await ping();
  t.equal(answers.length, 2);
  nowMs += 1;
  void ping();
  t.equal(answers.length, 3);
});

t.test('a failure is shared as an answer is, and asked about again', async (t) => {
  let asked = 0;
  const ping = sharedFor(1_000, async () => {
    asked += 1;
    throw new Error('away');
  });
  for (const answer of [ping(), ping(), ping()]) await t.rejects(answer, { message: 'away' });
  t.equal(asked, 1);
});
