// `npm run bench:gates`: what gates cost beside one plain engine: memory, loading, and contents that are full of gates.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { z } from 'zod';
import type { GateFiles } from '../src/engine/clamav/addon.js';
import { prepareGates } from '../src/engine/clamav/gates/prepare.js';
import { whole } from '../test/fixtures/option-values.js';
import { makeDatabase } from './database.js';
import type { Loaded, Order, Scanned } from './gates-process.js';

const KIB = 1024;
/** Gates for programs hit in programs only: this is one, of Debian's clamav-testfiles. */
const PROGRAM = '/usr/share/clamav-testfiles/clam.exe';
const [ANY_TARGET, PROGRAM_TARGET] = [0, 1];
const FLOOD_BYTES = [20 * KIB, 200 * KIB, KIB * KIB];

const settings = z.object({ database: z.string(), hashes: z.number(), rounds: z.number() });

interface Flood {
  readonly name: string;
  readonly path: string;
}

interface Pattern {
  readonly target: number;
  readonly bytes: Buffer;
}

/** Gates that hit anywhere; of a choice the first, and something for what is open. */
function patternsOf({ gates, literals }: GateFiles): Pattern[] {
  const lines = [gates, literals].flatMap((path) => readFileSync(path, 'latin1').split('\n'));
  return lines.flatMap((line) => {
    const [, target, offset, pattern] = line.split(':');
    if (offset !== '*' || pattern === undefined) return [];
    const bytes = (pattern.match(/\([^)]*\)|../g) ?? []).map((one) =>
      one.replace(/^\((..).*/, '$1').replaceAll('?', '4'),
    );
    return [{ target: Number(target), bytes: Buffer.from(bytes.join(''), 'hex') }];
  });
}

function makeFloods(files: GateFiles, folder: string): Flood[] {
  const floods: Flood[] = [];
  const patterns = patternsOf(files);
  const put = (name: string, head: Buffer, parts: readonly Buffer[]): void => {
    for (const bytes of parts.length === 0 ? [] : FLOOD_BYTES) {
      const pieces = [head];
      for (let length = head.length, at = 0; length < bytes; at += 1) {
        const part = parts[at % parts.length] ?? head;
        pieces.push(part);
        length += part.length;
      }
      const path = join(folder, `${name}-${bytes}`);
      writeFileSync(path, Buffer.concat(pieces));
      floods.push({ name: `${name}, ${bytes / KIB} KB`, path });
    }
  };
  const of = (target: number): Buffer[] =>
    patterns
      .filter((one) => one.target === target)
      .map(({ bytes }) => bytes)
      .sort((a, b) => a.length - b.length);
  put('all gates', Buffer.alloc(0), of(ANY_TARGET));
  put('the shortest gate', Buffer.alloc(0), of(ANY_TARGET).slice(0, 1));
  if (existsSync(PROGRAM)) {
    const head = readFileSync(PROGRAM);
    put('a program with all gates', head, [...of(ANY_TARGET), ...of(PROGRAM_TARGET)]);
    put('a program with short gates', head, of(PROGRAM_TARGET).slice(0, 200));
  }
  return floods;
}

async function start(order: Order): Promise<{ child: ChildProcess; loaded: Loaded }> {
  const child = fork(fileURLToPath(new URL('gates-process.js', import.meta.url)), [JSON.stringify(order)]);
  const [loaded]: Loaded[] = await once(child, 'message');
  if (loaded === undefined) throw new Error('the process said nothing');
  return { child, loaded };
}

/** The least of the rounds: what others do on the machine only adds. */
async function scan(child: ChildProcess, floods: readonly Flood[], rounds: number): Promise<Scanned> {
  let least = floods.map(() => ({ processorMs: Number.POSITIVE_INFINITY, matches: false }));
  for (let round = 0; round < rounds; round += 1) {
    child.send(floods.map(({ path }) => path));
    const [scanned]: Scanned[] = await once(child, 'message');
    least = least.map((known, index) => {
      const { processorMs, matches } = scanned?.[index] ?? known;
      return { processorMs: Math.min(known.processorMs, processorMs), matches };
    });
  }
  return least;
}

function printRow(name: string, plain: number, gated: number): void {
  const cells = [plain.toFixed(1), gated.toFixed(1), (gated / plain).toFixed(2)].map((cell) => cell.padStart(10));
  process.stdout.write(`${name.padEnd(48)}${cells.join('')}\n`);
}

async function main(): Promise<void> {
  const command = new Command('npm run bench:gates --')
    .description(
      'Compares an engine with gates with one without: memory, loading, and contents that are full of gates.',
    )
    .requiredOption('--signatures, --database <dir>', 'folder with signatures, .gz files are unpacked')
    .option('--hashes <count>', 'generated signatures beside them', Number, 3_500_000)
    .option('--rounds <count>', 'scans of each content; the least time is taken', whole, 3)
    .parse();
  const { database: source, hashes, rounds } = settings.parse(command.opts());
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-gates-'));
  try {
    const [database, store] = [join(folder, 'database'), join(folder, 'gates')];
    await makeDatabase(source, { hashes }, database);
    const { gates } = (await prepareGates([database], store)).options;
    if (gates === null) throw new Error('no signature of this database has a gate');
    const floods = makeFloods(gates, folder);
    // One after the other: both may not fit into the memory.
    const measure = async (ofStore: string | null) => {
      const { child, loaded } = await start({ database, temporaryDirectory: folder, store: ofStore });
      const scanned = await scan(child, floods, rounds);
      child.disconnect();
      await once(child, 'exit');
      return { loaded, scanned };
    };
    const [plain, gated] = [await measure(null), await measure(store)];
    process.stdout.write(`${''.padEnd(48)}${['plain', 'gates', 'ratio'].map((cell) => cell.padStart(10)).join('')}\n`);
    printRow('memory, MB', plain.loaded.memoryKib / KIB, gated.loaded.memoryKib / KIB);
    printRow('loading, processor s', plain.loaded.processorMs / 1_000, gated.loaded.processorMs / 1_000);
    for (const [index, { name }] of floods.entries()) {
      const [without, within] = [plain.scanned[index], gated.scanned[index]];
      if (without === undefined || within === undefined) continue;
      // One engine stops at the first match.
      const how = within.matches ? ', matches' : '';
      printRow(`${name}, processor ms${how}`, without.processorMs, within.processorMs);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

await main();
