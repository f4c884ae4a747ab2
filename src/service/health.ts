// What operators are answered, as the OpenAPI document describes it: liveness, readiness and versions.
import { z } from 'zod';
import { WireTime } from '../wire-time.js';

const count = z.int().min(0);
const reason = z.string().optional().describe('Why it is not `ready`.');

export const Liveness = z.object({ status: z.literal('ok') });

const Rules = z.object({ engine: z.string(), count, refusedFiles: count }).nullable().describe('YARA rules beside it.');

const ages = {
  version: z.string().nullable(),
  built: WireTime,
  dailyAgeHours: count.nullable().describe('Of the newest official daily database; null without one.'),
};

const Reload = z.object({
  status: z.enum(['none', 'running', 'failed']),
  percent: count.optional(),
  message: z.string().optional(),
  at: WireTime.optional(),
});

export type Readiness = z.infer<typeof Readiness>;
export const Readiness = z.object({
  status: z.enum(['ready', 'unavailable']),
  engine: z.object({
    status: z.enum(['loading', 'failed', 'ready', 'degraded']),
    message: reason,
    percent: count.optional().describe('With `loading`.'),
    signatures: count.optional(),
    epoch: count.optional(),
    engine: z.string().optional(),
    version: ages.version.optional(),
    built: ages.built.optional(),
    dailyAgeHours: ages.dailyAgeHours.optional(),
    rules: Rules.optional(),
    reload: Reload.optional(),
  }),
  admission: z.object({ status: z.enum(['ready', 'degraded']), message: reason }),
  store: z.object({ status: z.enum(['ready', 'failed']), message: reason }),
  history: z.object({
    status: z.enum(['ready', 'failed']),
    message: reason,
    waitingRows: count,
    waitingBytes: count,
    oldestAgeMs: z.number().nullable(),
    damagedFiles: count,
  }),
});

export type Versions = z.infer<typeof Versions>;
export const Versions = z.object({
  sluice: z.string(),
  node: z.string(),
  http: z.string().describe('The HTTP library that serves.'),
  sandbox: z
    .union([z.literal('off'), z.object({ seccomp: z.boolean(), landlock: z.int().nullable() })])
    .describe('What confines the scan threads.'),
  engine: z.string().nullable().describe('Null until one serves, as are the signatures.'),
  standsIn: z.boolean().optional(),
  signatures: z.object({ count, ...ages }).nullable(),
  rules: Rules.optional(),
});
