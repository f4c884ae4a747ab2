// What became of one test file, by its output and by how its process ended.
export interface Result {
  readonly ok: boolean;
  readonly total: number;
  readonly pass: number;
  readonly fail: number;
  readonly skip: number;
  readonly todo: number;
  /** What was skipped, each with its reason. */
  readonly skipped: readonly string[];
}

/** tap ends with its totals, which leave out what is zero: # { total: 12, pass: 11, fail: 1 }. Without them it was cut short. What is skipped must say why. */
export function resultOf(output: string, code: number | null, signal: NodeJS.Signals | null): Result {
  const totals = [...output.matchAll(/^# \{ total: .*\}$/gm)].at(-1)?.[0] ?? '';
  const count = (name: string): number => Number(new RegExp(`\\b${name}: (\\d+)`).exec(totals)?.[1] ?? 0);
  const [total, pass, fail, skip, todo] = [count('total'), count('pass'), count('fail'), count('skip'), count('todo')];
  const skipped = [...output.matchAll(/^ *ok \d+ - (.*) # SKIP +(\S.*)$/gm)].map(([, name, why]) => `${name}: ${why}`);
  const hasReasons = skip === skipped.length;
  const ok = code === 0 && signal === null && fail === 0 && hasReasons && todo === 0 && pass > 0;
  return { ok, total, pass, fail: ok ? 0 : Math.max(1, fail), skip, todo, skipped };
}

/** What is left to read of it: failures, and the names of the tests around them. */
export function withoutPasses(output: string): string {
  return output
    .split('\n')
    .filter((line) => !/^\s*(ok \d.*|\d+\.\.\d+.*)?$/.test(line))
    .join('\n');
}
