// Blocks that nobody needs go back to the kernel, and are there again.
import t from 'tap';
import { createArena } from '../../src/scan/memory/arena.js';
import { until } from '../fixtures/until.js';

const MIB = 1024 * 1024;
const FILLED = 32 * MIB;
/** The rest of the process grows and shrinks as well. */
const MOST = 0.75 * FILLED;

t.test('what nobody needs for some seconds goes back to the kernel, and is there again', async (t) => {
  const arena = createArena(2 * FILLED);
  const resident = (): number => process.memoryUsage().rss;
  for (const size of [64 * 1024, 4 * MIB]) {
    for (let round = 0; round < 2; round += 1) {
      const blocks = Array.from({ length: FILLED / size }, () => arena.take(size, 0));
      const before = resident();
      for (const [index, block] of blocks.entries()) block.fill(index);
      const filled = resident();
      if (round === 0) t.ok(filled - before > MOST, 'a page is there once it is written to');
      t.ok(
        blocks.every((block, index) => block[0] === (index & 0xff) && block[size - 1] === (index & 0xff)),
        'each is a block of its own',
      );
      for (const block of blocks) arena.give(block, 0);
      await until(() => filled - resident() > MOST);
    }
  }
});
