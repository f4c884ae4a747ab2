// What a server reads at its start: the libraries that only some servers need are read where they are needed.
import { createRequire } from 'node:module';
import t from 'tap';

t.test('a server reads no driver of Redis, no mail and no download before it needs them', async (t) => {
  await import('../../src/cli/server-process.js');
  await import('../../src/service/service.js');
  // Only these are in the cache of CommonJS; all of the three are in that form.
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  t.ok(
    loaded.some((path) => path.includes('/node_modules/pino/')),
    'what it does need is there',
  );
  for (const name of ['ioredis', 'nodemailer', 'undici']) {
    const files = loaded.filter((path) => path.includes(`/node_modules/${name}/`));
    t.same(files, [], name);
  }
});
