// What is said of an API key when it is made or changed: its limits on the wire, checked against what its account may.
import { z } from 'zod';
import { KEY_SCOPES, type KeyLimits } from '../config/key-rules.js';
import { Failure } from '../errors.js';
import { WireTime, wireTime } from '../wire-text.js';

const SECOND_MS = 1000;

const Expires = z
  .string()
  .regex(/^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?$/, 'must be a UTC time like 2030-01-31T00:00:00')
  .refine((text) => isTime(text), 'must be a UTC time like 2030-01-31T00:00:00');

function isTime(text: string): boolean {
  const ms = msOf(text);
  return !Number.isNaN(ms) && text.startsWith(wireTime(new Date(ms)));
}

function msOf(text: string): number {
  return Date.parse(text.endsWith('Z') ? text : `${text}Z`);
}

/** Of a new key, or of one that is changed: there what is left out stays. */
export const LimitFields = {
  expires: Expires.nullable().optional().describe('UTC, in the future; from then on the key is refused. null: never.'),
  hourlyLimit: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe("Scans per hour of this key alone, at most the account's. null: as many as the account has."),
  scopes: z
    .array(z.enum(KEY_SCOPES, { error: `must be one of ${KEY_SCOPES.join(', ')}` }))
    .min(1)
    .max(KEY_SCOPES.length)
    .refine((scopes) => new Set(scopes).size === scopes.length, 'must have each only once')
    .nullable()
    .optional()
    .describe('`scan`: may scan. `read`: may ask for scans and for the account. Both when left out.'),
};

const Limits = z.object(LimitFields);

/** As an owner sees them. */
export const LimitViews = {
  expires: WireTime.nullable().describe('UTC; from then on it is refused. null: never.'),
  hourlyLimit: z.int().nullable().describe('Scans per hour of this key alone. null: as many as the account has.'),
  scopes: z.array(z.enum(KEY_SCOPES)),
};

export function limitViews({ expiresAtSeconds, hourlyLimit, scopes }: KeyLimits) {
  const expires = expiresAtSeconds === null ? null : wireTime(new Date(expiresAtSeconds * SECOND_MS));
  return { expires, hourlyLimit, scopes: [...scopes] };
}

export interface Within {
  readonly hourlyLimit: number;
  readonly nowMs: number;
}

/** What was said; the rest is absent. Throws Failure `badRequest`. */
export function limitsIn({ expires, hourlyLimit, scopes }: z.infer<typeof Limits>, within: Within): Partial<KeyLimits> {
  if (typeof expires === 'string' && msOf(expires) <= within.nowMs) {
    throw new Failure('badRequest', 'expires: must be in the future');
  }
  if (typeof hourlyLimit === 'number' && hourlyLimit > within.hourlyLimit) {
    throw new Failure('badRequest', `hourlyLimit: must be at most ${within.hourlyLimit}, which the account has`);
  }
  return {
    ...(expires === undefined ? {} : { expiresAtSeconds: expires === null ? null : msOf(expires) / SECOND_MS }),
    ...(hourlyLimit === undefined ? {} : { hourlyLimit }),
    ...(scopes === undefined ? {} : { scopes: scopes ?? KEY_SCOPES }),
  };
}
