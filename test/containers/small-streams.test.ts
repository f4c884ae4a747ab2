// A content of very many small streams: what the library of a format needs for one is there for the next one, too.
import t from 'tap';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';

const empty: Record<string, string> = {
  bzip2: '425a683917724538509000000000',
  lz4: '04224d1860707300000000',
  'lz4 in its first form': '02214c18020000001041',
};

t.test('memory is not taken anew for each of many small streams', async (t) => {
  await load(t, [ownSignaturesDirectory]);
  for (const [what, stream] of Object.entries(empty)) {
    const bytes = Buffer.alloc(1 << 20, Buffer.from(stream, 'hex'));
    const streams = Math.floor(bytes.length / (stream.length / 2));
    verdictOf(bytes.subarray(0, 1 << 12));
    const before = process.resourceUsage().minorPageFault;
    verdictOf(bytes);
    const pages = process.resourceUsage().minorPageFault - before;
    t.ok(pages < streams / 4, `${what}: ${pages} pages for ${streams} streams`);
  }
});
