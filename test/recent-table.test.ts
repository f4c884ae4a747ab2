// The table of what was used last: its bound, which entry goes, and that an empty one takes no memory for what it may have.
import { getHeapStatistics } from 'node:v8';
import t from 'tap';
import { recentTable } from '../src/recent-table.js';

t.test('of more entries than it may have the one that was used longest ago goes', async (t) => {
  const table = recentTable<number>(2);
  table.set('one', 1);
  table.set('two', 2);
  table.set('one', 11);
  table.get('two');
  table.set('three', 3);
  t.strictSame([...table.keys()], ['three', 'two']);
  table.delete('two');
  table.set('four', 4);
  t.strictSame([...table.keys()], ['four', 'three'], 'one that is deleted makes room');
});

t.test('an empty one takes no memory for what it may have', async (t) => {
  const bytesOf = (): number => getHeapStatistics().used_heap_size + process.memoryUsage().arrayBuffers;
  const before = bytesOf();
  const tables = Array.from({ length: 10 }, () => recentTable<number>(1_000_000));
  t.ok(bytesOf() - before < 1_000_000, 'with a bound by number ten of them take 280 MB');
  t.equal(tables.length, 10);
});
