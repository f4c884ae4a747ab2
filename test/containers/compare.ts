// What the engine says of containers beside what the common tools get out of them, and beside stock clamscan.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { scanBuffer } from '../../src/engine/clamav/addon.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { eicar } from '../fixtures/samples.js';
import type { Container } from './containers.js';

export interface Compared extends Container {
  /** `infected`, `incomplete: REASON`, `clean` or `clean, NOTICE`. */
  readonly verdict: string;
  /** Tools that get the test file out of it. */
  readonly tools: string;
  readonly isFoundByClamscan: boolean;
  readonly path: string;
}

const script = new URL('../../../test/containers/tools.py', import.meta.url).pathname;

export function verdictOf(bytes: Uint8Array): string {
  const verdict = readAnswer(scanBuffer(bytes), usualPolicy);
  if (verdict.kind === 'clean') {
    const { encrypted, truncated = false } = verdict;
    return ['clean', ...(encrypted ? ['encrypted'] : []), ...(truncated ? ['truncated'] : [])].join(', ');
  }
  return verdict.kind === 'infected' ? 'infected' : `incomplete: ${verdict.reason}`;
}

/** In the folder. An engine with the project's signatures must be loaded. */
export async function* compare(made: Iterable<Container>, folder: string): AsyncGenerator<Compared> {
  mkdirSync(folder, { recursive: true });
  const written = [...made].map((one, index) => ({ ...one, path: join(folder, `container${index}`) }));
  for (const { path, bytes } of written) writeFileSync(path, bytes);
  const infected = foundByClamscan(folder);
  const python = spawn('/usr/bin/python3', [script, eicar().toString('hex')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface({ input: python.stdout })[Symbol.asyncIterator]();
  for (const one of written) {
    python.stdin.write(`${one.path}\n`);
    const { value, done } = await answers.next();
    if (done) throw new Error('The tools have ended');
    const isFoundByClamscan = infected.has(one.path);
    yield { ...one, verdict: verdictOf(one.bytes), tools: value, isFoundByClamscan };
  }
  python.stdin.end();
}

function foundByClamscan(folder: string): Set<string> {
  const args = [`--database=${ownSignaturesDirectory}`, '--no-summary', '--infected', '--disable-cache', '-r', folder];
  const { stdout } = spawnSync('clamscan', args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  return new Set(stdout.split('\n').map((line) => line.split(': ')[0] ?? ''));
}

/** Undefined: it is as it must be. */
export function complaintAbout({ what, verdict, tools, isFoundByClamscan }: Compared): string | undefined {
  if (verdict === 'clean' && tools !== '') return `${what}: clean, but ${tools} get the test file out of it`;
  if (verdict === 'clean, truncated' && tools !== '')
    return `${what}: truncated, but ${tools} get the test file out of it`;
  if (verdict !== 'infected' && isFoundByClamscan) return `${what}: ${verdict}, but infected for clamscan`;
  return undefined;
}
