// Chromium's trace of one visit, read for what a user notices; the format: https://chromium.googlesource.com/catapult/+/HEAD/docs/trace-event-format.md
import { z } from 'zod';

export interface Speed {
  /** From the beginning of the navigation, as the other times are. */
  readonly firstPaintMs: number;
  /** The end of the last task that held the page up, or the first paint where none did. */
  readonly interactiveMs: number;
  /** What tasks after the first paint took beyond 50 ms each. */
  readonly blockedMs: number;
  /** The sum of all shifts that nobody asked for. */
  readonly layoutShift: number;
  readonly requests: number;
  /** Of answers, with their headers, as they were transferred. */
  readonly bytes: number;
}

/** https://web.dev/articles/optimize-long-tasks */
const LONG_TASK_MS = 50;

const event = z.object({
  name: z.string(),
  pid: z.number(),
  tid: z.number(),
  ts: z.number(),
  dur: z.number().optional(),
  args: z
    .object({
      frame: z.string().optional(),
      name: z.string().optional(),
      data: z
        .looseObject({
          isOutermostMainFrame: z.boolean().optional(),
          documentLoaderURL: z.string().optional(),
          weighted_score_delta: z.number().optional(),
          had_recent_input: z.boolean().optional(),
          encodedDataLength: z.number().optional(),
        })
        .optional(),
    })
    .optional(),
});
type TraceEvent = z.infer<typeof event>;
const recording = z.object({ traceEvents: z.array(event.or(z.looseObject({ ph: z.literal('M') }))) });

/** Throws when the trace has no visit of a page. */
export function readTrace(text: string): Speed {
  const events = recording.parse(JSON.parse(text)).traceEvents.flatMap((one) => event.safeParse(one).data ?? []);
  const start = events.findLast(
    ({ name, args }) => name === 'navigationStart' && args?.data?.documentLoaderURL?.startsWith('http') === true,
  );
  if (start === undefined) throw new Error('The trace has no navigation');
  const own = events.filter(({ pid, ts }) => pid === start.pid && ts >= start.ts);
  const since = (us: number): number => (us - start.ts) / 1_000;
  const paint = own.find(({ name }) => name === 'firstContentfulPaint');
  if (paint === undefined) throw new Error('The trace has no paint');
  const tasks = own
    .filter(({ name, tid }) => name.endsWith('RunTask') && tid === start.tid)
    .map(({ ts, dur = 0 }) => ({ endMs: since(ts + dur), ms: dur / 1_000 }))
    .filter(({ endMs, ms }) => ms > LONG_TASK_MS && endMs > since(paint.ts));
  const finished = own.filter(({ name }) => name === 'ResourceFinish');
  return {
    firstPaintMs: since(paint.ts),
    interactiveMs: Math.max(since(paint.ts), ...tasks.map(({ endMs }) => endMs)),
    blockedMs: tasks.reduce((sum, { ms }) => sum + ms - LONG_TASK_MS, 0),
    layoutShift: own.filter(({ name }) => name === 'LayoutShift').reduce((sum, one) => sum + shiftOf(one), 0),
    requests: own.filter(({ name }) => name === 'ResourceSendRequest').length,
    bytes: finished.reduce((sum, { args }) => sum + (args?.data?.encodedDataLength ?? 0), 0),
  };
}

function shiftOf({ args }: TraceEvent): number {
  return args?.data?.had_recent_input === true ? 0 : (args?.data?.weighted_score_delta ?? 0);
}
