// A row of the table of environment variables: a setting, its variable, and what reads it.
import type { z } from 'zod';

export interface Row<Value> {
  /** Of the variable. */
  readonly name: string;
  /** The text that means the same as leaving it out; null where there is none, or where it depends on the machine. */
  readonly default: string | null;
  readonly about: string;
  readonly schema: z.ZodType<Value>;
  /** The setting without the variable. */
  readonly unset: Value;
}

export function initially<Value>(name: string, text: string, about: string, schema: z.ZodType<Value>): Row<Value> {
  return { name, default: text, about, schema, unset: schema.parse(text) };
}

/** Null while it is not set. */
export function optional<Value>(name: string, about: string, schema: z.ZodType<Value>): Row<Value | null> {
  return { name, default: null, about, schema, unset: null };
}

/** For what no text stands for. */
export function otherwise<Value>(name: string, unset: Value, about: string, schema: z.ZodType<Value>): Row<Value> {
  return { name, default: null, about, schema, unset };
}
