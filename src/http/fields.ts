// The fields of a JSON body or of a query against a schema: `null` is as if the field were absent, unless the schema knows what to do with it.
import type { z } from 'zod';

type Parsed<T> = z.ZodSafeParseResult<T>;

/** What is wrong is said in words of our own, where the schema has none: a validator's are for developers, and change with its version. */
export function parseFields<T>(schema: z.ZodType<T>, value: unknown): Parsed<T> {
  const parsed = schema.safeParse(value, { error: wordsFor });
  if (parsed.success || typeof value !== 'object' || value === null || Array.isArray(value)) return parsed;
  // A field that nobody knows stays, to be named in the answer.
  const unknown = new Set(
    parsed.error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : [])),
  );
  const present = Object.entries(value).filter(([name, field]) => field !== null || unknown.has(name));
  return schema.safeParse(Object.fromEntries(present), { error: wordsFor });
}

function wordsFor(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${KINDS[issue.expected] ?? 'of another kind'}`;
    case 'too_big':
      return `must be at most ${issue.maximum}${unitOf(issue.origin)}`;
    case 'too_small':
      return `must be at least ${issue.minimum}${unitOf(issue.origin)}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'unrecognized_keys':
      return `unknown: ${issue.keys.join(', ')}`;
    default:
      return 'is not valid';
  }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
};

function unitOf(origin: string): string {
  if (origin === 'string') return ' characters long';
  return origin === 'array' ? ' entries long' : '';
}
