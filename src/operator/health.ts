// How the process that answers is: its engine and signatures, threads and queue, memory by owner, its stores and its journal.
import { z } from 'zod';
import { NodeView } from './nodes.js';
import { UpdateView } from './signature-update.js';

const lent = z.object({
  lentBytes: z.int(),
  budgetBytes: z.int(),
  accounts: z.int(),
  largestAccountBytes: z.int(),
  waiting: z.int(),
});

export const HealthView = z
  .object({
    process: z.object({
      version: z.string(),
      node: z.string(),
      host: z.string(),
      pid: z.int(),
      processes: z.int().describe('Of this service on this machine'),
      uptimeSeconds: z.int().describe('Since this process was started or restarted'),
    }),
    engine: z.object({
      state: z.enum(['loading', 'ready', 'failed']),
      description: z.string().nullable(),
      signatures: z.int(),
      standing: z.enum(['starter', 'current', 'old', 'other']).nullable(),
      builtAt: z.int().nullable().describe('Epoch seconds, of the newest database'),
      standsInFor: z.string().nullable(),
      problem: z.string().nullable(),
      progress: z.number().nullable().describe('Of a load that runs, 0 to 1'),
    }),
    threads: z.object({
      threads: z.int(),
      running: z.int(),
      standIns: z.int(),
      waiting: z.int(),
      accountsWaiting: z.int(),
      late: z.int(),
      hung: z.int(),
    }),
    memory: z.object({
      residentBytes: z.int(),
      limitBytes: z.int().nullable(),
      heapBytes: z.int(),
      uploads: lent,
      downloads: lent,
      verdictCacheBytes: z.int(),
    }),
    stores: z.object({
      database: z.string().nullable().describe('null: it answers; otherwise what is wrong'),
      isEmbedded: z.boolean(),
      admission: z.string().nullable().describe('null: as it should be; otherwise what is wrong'),
      hasRedis: z.boolean(),
    }),
    journal: z.object({
      rows: z.int(),
      bytes: z.int(),
      oldestSeconds: z.number(),
      damagedFiles: z.int(),
      problem: z.string().nullable(),
    }),
    nodes: z
      .array(NodeView)
      .describe('Processes that share the database: the one that answers first, others as of the last ten seconds'),
    suspects: z.int().describe('Contents that are refused since they crashed the engine'),
    refused: z.array(z.string()).describe('The newest of them, by SHA-256'),
    update: UpdateView,
  })
  .meta({ id: 'Health' });
export type HealthView = z.infer<typeof HealthView>;

export type ReadHealth = () => Promise<Omit<HealthView, 'update'>>;
