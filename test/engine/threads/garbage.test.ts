// What a scan leaves to the garbage collector: nothing of it is kept until the whole heap is collected.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { HEAP_OPTIONS } from '../../../src/cli/heap.js';
import { bodySignature, databaseFolder, temporaryFolder } from '../../native/engine.js';

const program = fileURLToPath(new URL('garbage-program.js', import.meta.url));
/** While V8 learns and compiles, objects of scans do become old: for 20,000 scans with Node 20, up to 100,000 with 24 and 26. */
const ROUNDS = 10;
const SCANS = 20_000;
/** A scan has 5 KB of objects in the pool. Those that are under way at a collection live on, which is next to nothing for each. */
const KEPT_BYTES = 250;

/** A collection of the young part. V8 writes `gc=s`, from Node 26 on JSON. */
const YOUNG = /\bgc(=|":")s\b/;
const PROMOTED = /\bpromoted(?:=|":)(\d+)/;

t.test('what a scan has in the pool dies young', async (t) => {
  const databases = databaseFolder(t, { 'test.ndb': bodySignature('Test.Never', 'never in it') });
  const argv = [program, databases, temporaryFolder(t), String(ROUNDS), String(SCANS)];
  const child = spawn(process.execPath, [...HEAP_OPTIONS, '--trace-gc', '--trace-gc-nvp', ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  const kept: number[] = [];
  let promoted: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    if (YOUNG.test(line)) promoted.push(Number(PROMOTED.exec(line)?.[1]));
    if (line !== 'ROUND') continue;
    t.ok(promoted.length > 2, 'the young part of the heap was collected a few times');
    kept.push(promoted.reduce((sum, bytes) => sum + bytes, 0) / SCANS);
    promoted = [];
    if (kept.length > 1 && (kept.at(-1) ?? 0) < KEPT_BYTES) break;
  }
  child.kill();
  await ended;
  t.ok(
    kept.slice(1).some((bytes) => bytes < KEPT_BYTES),
    `bytes of each scan, by round: ${kept.map(Math.round)}`,
  );
});
