// A fuzzer that follows coverage: an input that reaches a new block of code is kept, and others are made of it. What throws is a finding.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generator } from '../fixtures/random.js';
import { reached } from './coverage.js';
import { mutated, type Random } from './mutate.js';
import type { Target } from './targets.js';

export interface FuzzOptions {
  /** Ends at the first of these three. */
  readonly runs: number;
  readonly seconds: number;
  readonly findingsMax: number;
  readonly seed: number;
  /** Inputs of earlier runs, and of this one; null: none are read or kept. */
  readonly corpus: string | null;
}

export interface FuzzReport {
  readonly runs: number;
  readonly kept: number;
  readonly findings: readonly Finding[];
}

export interface Finding {
  readonly input: Buffer;
  readonly problem: string;
}

const LIMIT_BYTES = 4096;
/** Of processor time: an input over which a pure function takes so long is a finding, since it holds the serving thread. */
const SLOW_MS = 500;

export function fuzz(target: Target, options: FuzzOptions): FuzzReport {
  const next = generator(options.seed);
  const random: Random = (below) => Math.floor(next() * below);
  const mutation = { random, words: target.words, limitBytes: LIMIT_BYTES };
  let covered = reached();
  const inputs = [...target.seeds.map((seed) => Buffer.from(seed, 'latin1')), ...read(options.corpus)];
  const findings = new Map<string, Finding>();
  const endMs = performance.now() + options.seconds * 1000;
  let runs = 0;
  let kept = 0;
  const seeds = inputs.length;
  while (runs < options.runs && performance.now() < endMs && findings.size < options.findingsMax) {
    const isSeed = runs < seeds;
    const input = isSeed ? inputs[runs] : mutated(pick(inputs, random), pick(inputs, random), mutation);
    runs += 1;
    if (input === undefined) throw new Error('Each seed is run once');
    const problem = tried(target, input);
    if (problem !== null && !findings.has(problem)) findings.set(problem, { input, problem });
    const now = reached();
    const isNew = now > covered;
    covered = now;
    if (!isNew || isSeed) continue;
    inputs.push(input);
    kept += 1;
    keep(options.corpus, input);
  }
  return { runs, kept, findings: [...findings.values()] };
}

/** What is wrong with it, without anything that differs from run to run. */
export function tried(target: Target, input: Buffer): string | null {
  const begun = process.cpuUsage();
  try {
    target.run(input);
  } catch (error) {
    const [message, place = ''] = error instanceof Error ? (error.stack ?? error.message).split('\n') : [String(error)];
    return `${message} ${place.trim()}`;
  }
  const { user, system } = process.cpuUsage(begun);
  return user + system > SLOW_MS * 1000 ? `takes over ${SLOW_MS} ms` : null;
}

function pick(inputs: readonly Buffer[], random: Random): Buffer {
  // What was found last leads on best.
  const recent = random(3) === 0 ? Math.max(0, inputs.length - 20) : 0;
  return inputs[recent + random(inputs.length - recent)] ?? Buffer.alloc(0);
}

function read(corpus: string | null): Buffer[] {
  if (corpus === null) return [];
  mkdirSync(corpus, { recursive: true });
  return readdirSync(corpus).map((name) => readFileSync(join(corpus, name)));
}

function keep(corpus: string | null, input: Buffer): void {
  if (corpus === null) return;
  const name = createHash('sha256').update(input).digest('hex').slice(0, 16);
  writeFileSync(join(corpus, name), input);
}
