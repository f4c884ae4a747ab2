// The addons' border to Node: compiled without a download, and of one Node-API version that every supported Node has.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { packageJsonPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';

const root = dirname(packageJsonPath);
const names = z.array(z.string());
const headers = z
  .object({
    include_dir: z.string(),
    symbols: z.object({ v8: z.object({ js_native_api_symbols: names, node_api_symbols: names }) }),
  })
  .parse(createRequire(import.meta.url)('node-api-headers'));
const built = join(root, 'native', 'build', 'Release');
/** libuv keeps its functions the same through a major version, and all of these Nodes have version 1. */
const OF_LIBUV_1 = [
  'uv_backend_fd',
  'uv_close',
  'uv_handle_get_data',
  'uv_handle_get_loop',
  'uv_handle_get_type',
  'uv_handle_set_data',
  'uv_handle_size',
  'uv_hrtime',
  'uv_idle_init',
  'uv_idle_start',
  'uv_idle_stop',
  'uv_is_active',
  'uv_poll_init',
  'uv_poll_start',
  'uv_poll_stop',
  'uv_timer_get_repeat',
  'uv_timer_init',
  'uv_timer_start',
  'uv_timer_stop',
  'uv_unref',
  'uv_walk',
];
/** Nothing listens there. */
const NOWHERE = 'http://127.0.0.1:9';

t.test('node-gyp finds all headers without a network', (t) => {
  const folder = temporaryFolder(t);
  cpSync(join(root, 'native'), join(folder, 'native'), { recursive: true, filter: (path) => !path.endsWith('/build') });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const gyp = join(root, 'node_modules', 'node-gyp', 'bin', 'node-gyp.js');
  const { status, stderr } = spawnSync(process.execPath, [gyp, 'configure'], {
    cwd: join(folder, 'native'),
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      HTTP_PROXY: NOWHERE,
      HTTPS_PROXY: NOWHERE,
      npm_config_nodedir: join(folder, 'native', 'node'),
    },
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
  t.notMatch(stderr, 'gyp http', 'and asked nobody for them');
  const makefile = readFileSync(join(folder, 'native', 'build', 'sluice.target.mk'), 'utf8');
  t.match(makefile, `-I${headers.include_dir}`);
  t.ok(existsSync(join(headers.include_dir, 'node_api.h')));
  t.end();
});

t.test('an addon asks Node for nothing beyond Node-API 8, so that one binary loads in Node 20 to 26', (t) => {
  const { js_native_api_symbols, node_api_symbols } = headers.symbols.v8;
  const offered = new Set([...js_native_api_symbols, ...node_api_symbols]);
  for (const name of readdirSync(built).filter((file) => file.endsWith('.node'))) {
    const listed = execFileSync('nm', ['-D', '--undefined-only', join(built, name)], { encoding: 'utf8' });
    const asked = [...listed.matchAll(/\b(?:napi|node_api)_\w+/g)].map(([symbol]) => symbol);
    t.not(asked.length, 0, `${name} is an addon`);
    t.same(
      asked.filter((symbol) => !offered.has(symbol)),
      [],
    );
    t.notMatch(listed, / (?:_ZN2v8|_ZN4node)/, `${name} knows nothing of V8 and Node's own classes`);
    const loop = [...listed.matchAll(/ (uv_\w+)/g)].map(([, symbol]) => symbol ?? '');
    t.same(
      loop.filter((symbol) => !OF_LIBUV_1.includes(symbol)),
      [],
      'nor of libuv, but for what all of its versions 1 have',
    );
  }
  t.end();
});
