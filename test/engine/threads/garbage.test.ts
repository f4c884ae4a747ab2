// What a scan leaves to the garbage collector: nothing of it is kept until the whole heap is collected.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { HEAP_OPTIONS } from '../../../src/cli/heap.js';
import { bodySignature, databaseFolder, temporaryFolder } from '../../native/engine.js';

const program = fileURLToPath(new URL('garbage-program.js', import.meta.url));
const SCANS = 20_000;
/** A scan has 5 KB of objects in the pool. Those that are under way at a collection live on, which is next to nothing for each. */
const KEPT_BYTES = 250;

/** A collection of the young part. V8 writes `gc=s`, from Node 26 on JSON. */
const YOUNG = /\bgc(=|":")s\b/;
const PROMOTED = /\bpromoted(?:=|":)(\d+)/;

t.test('what a scan has in the pool dies young', async (t) => {
  const databases = databaseFolder(t, { 'test.ndb': bodySignature('Test.Never', 'never in it') });
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...HEAP_OPTIONS, '--trace-gc', '--trace-gc-nvp', program, databases, temporaryFolder(t), String(SCANS)],
    { maxBuffer: 64 * 1024 * 1024 },
  );
  const [, counted = ''] = stdout.split('BEGIN');
  const young = counted.split('\n').filter((line) => YOUNG.test(line));
  const promoted = young.map((line) => Number(PROMOTED.exec(line)?.[1]));
  t.ok(promoted.length > 2, 'the young part of the heap was collected a few times');
  const keptBytes = promoted.reduce((sum, bytes) => sum + bytes, 0) / SCANS;
  t.ok(keptBytes < KEPT_BYTES, `${keptBytes.toFixed(0)} bytes of each scan`);
});
