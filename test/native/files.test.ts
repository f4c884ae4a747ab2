// The folder that libclamav makes for each scan: it is made for contents that need it, and for no others.
import { readdirSync, rmSync, watch } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { gzip, mail, nestedZip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { loadEngine } from './engine.js';

const EVENTS_MS = 100;
const plain = Buffer.from('some text, and nothing to unpack');
const unpacked = { gzip: gzip(eicar()), mail: mail(eicar()), zip: nestedZip(eicar(), 3) };

t.test(
  'a folder is made where something is unpacked, is gone afterwards, and is missed where it can not be made',
  async (t) => {
    const temporaryDirectory = temporaryFolder(t);
    await loadEngine({ directories: [ownSignaturesDirectory], temporaryDirectory, limits: defaultEngineLimits });
    let events = 0;
    const watcher = watch(temporaryDirectory, () => {
      events += 1;
    });
    t.teardown(() => watcher.close());

    t.match(scanBuffer(plain), { code: 0, alerts: [] });
    await sleep(EVENTS_MS);
    t.equal(events, 0, 'nothing was made in the folder');

    for (const [name, content] of Object.entries(unpacked)) {
      t.match(scanBuffer(content), { code: 1 }, name);
      t.strictSame(readdirSync(temporaryDirectory), [], `${name} leaves nothing`);
    }
    t.match(scanBuffer(mail(Buffer.from('harmless'))), { code: 0 });
    await sleep(EVENTS_MS);
    t.ok(events > 0, 'and these have made something');
    t.strictSame(readdirSync(temporaryDirectory), []);

    rmSync(temporaryDirectory, { recursive: true });
    t.match(scanBuffer(plain), { code: 0, storageFailed: false }, 'it needs no folder');
    t.match(scanBuffer(mail(Buffer.from('harmless'))), { virusName: null, storageFailed: true });
    t.not(scanBuffer(mail(Buffer.from('harmless'))).code, 0);
  },
);
