// Builds of uWebSockets.js that can't serve: what is said of each.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { loadUws } from '../../src/http/uws/wire.js';
import { temporaryFolder } from '../fixtures/folder.js';

t.test('one that can serve is not among them', async (t) => {
  const folder = temporaryFolder(t);
  const others = 'us_listen_socket_close() {}, us_socket_local_port() {}';
  const builds = {
    old: `module.exports = { App: () => ({ listen() {}, close() {} }), ${others} };`,
    foreign: 'module.exports = { App() {} };',
    foreignNode: "try { require('./bin/uws_137.node') } catch (error) { throw new Error('only others\\n\\n' + error) }",
    broken: "throw new Error('a first line\\nfor another Node');",
  };
  const candidates = Object.entries(builds).map(([name, text]) => {
    const directory = join(folder, name);
    mkdirSync(directory);
    writeFileSync(join(directory, 'package.json'), JSON.stringify({ name, version: '1.2.3' }));
    writeFileSync(join(directory, 'uws.js'), text);
    return { directory, specifier: pathToFileURL(join(directory, 'uws.js')).href };
  });
  t.strictSame(await loadUws([...candidates, { directory: join(folder, 'none'), specifier: '' }]), {
    problems: [
      'old 1.2.3: it has no adoptSocket: it is too old',
      'foreign 1.2.3: it is not uWebSockets.js',
      "foreignNode 1.2.3: Error: Cannot find module './bin/uws_137.node'",
      'broken 1.2.3: for another Node',
    ],
  });
});
