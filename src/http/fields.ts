// The fields of a JSON body against a schema: `null` is as if the field were absent, unless the schema knows what to do with it.
import type { z } from 'zod';

type Parsed<T> = z.ZodSafeParseResult<T>;

export function parseFields<T>(schema: z.ZodType<T>, value: unknown): Parsed<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success || typeof value !== 'object' || value === null || Array.isArray(value)) return parsed;
  // A field that nobody knows stays, to be named in the answer.
  const unknown = new Set(
    parsed.error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : [])),
  );
  const present = Object.entries(value).filter(([name, field]) => field !== null || unknown.has(name));
  return schema.safeParse(Object.fromEntries(present));
}
