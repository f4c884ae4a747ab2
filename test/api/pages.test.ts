// The files of the dashboard: compressed, cached by their names, under a strict policy; and what is no page is still a JSON 404.
import { readdirSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import t from 'tap';
import { guides, pagePaths } from '../../src/service/endpoints.js';
import { startServer } from '../fixtures/server.js';

/** A first visit fetches so much at most, the page to sign in too: it comes with the first script. */
const FIRST_PAGE_BYTES = 180_000;
/** The document, a script, a style sheet, the mark and the font of Latin letters: each request costs the server more than its bytes. */
const FIRST_PAGE_FILES = 5;

interface Raw {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

t.test('pages', async (t) => {
  const { url, port, stop } = await startServer({ untilReady: false });
  t.teardown(() => stop());

  /** Without the decompression that fetch does. */
  function raw(path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET'): Promise<Raw> {
    return new Promise((resolve, reject) => {
      const sent = request({ port, path, method, headers, agent: false }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () =>
          resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) }),
        );
      });
      sent.on('error', reject);
      sent.end();
    });
  }

  t.test('every page of the client is the one document, under a policy that allows nothing inline', async (t) => {
    const first = await (await fetch(url)).text();
    for (const path of [...pagePaths, ...guides.map((guide) => `/docs/${guide}`)]) {
      const answer = await fetch(`${url}${path}?any=query`);
      t.equal(answer.status, 200, path);
      t.equal(await answer.text(), first);
      const policy = answer.headers.get('content-security-policy') ?? '';
      t.match(policy, /default-src 'none'/);
      t.notMatch(policy, /unsafe|http|\*/);
      t.match(Object.fromEntries(answer.headers), {
        'content-type': 'text/html; charset=utf-8',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cache-control': 'no-cache',
      });
    }
    t.notMatch(first, /<script>|<style|style=|https?:/, 'nothing inline, nothing from elsewhere');
    const files = readdirSync(new URL('../../../docs', import.meta.url)).filter((name) => name.endsWith('.md'));
    for (const guide of guides) t.ok(files.includes(`${guide}.md`), `docs/${guide}.md`);
  });

  t.test('assets are kept for ever by their names, and come in the best form that is asked for', async (t) => {
    const page = await (await fetch(url)).text();
    const path = /\/assets\/index-[\w-]+\.js/.exec(page)?.[0] ?? '';
    const plain = await (await fetch(`${url}${path}`, { headers: { 'Accept-Encoding': 'identity' } })).text();
    const forms = { br: brotliDecompressSync, gzip: gunzipSync } as const;
    for (const [coding, decode] of Object.entries(forms)) {
      const answer = await raw(path, { 'Accept-Encoding': coding });
      t.match(answer.headers, {
        'cache-control': 'public, max-age=31536000, immutable',
        'content-encoding': coding,
        vary: 'Accept-Encoding',
      });
      t.equal(decode(answer.body).toString(), plain);
    }
    t.notOk((await raw(path, { 'Accept-Encoding': 'br;q=0, gzip;q=0' })).headers['content-encoding']);
    const etag = (await raw(path, { 'Accept-Encoding': 'br' })).headers.etag ?? '';
    const known = await raw(path, { 'Accept-Encoding': 'br', 'If-None-Match': `"other", W/${etag}` });
    t.equal(known.status, 304);
    t.equal(known.body.length, 0);
    t.equal((await raw(path, { 'Accept-Encoding': 'gzip', 'If-None-Match': etag })).status, 200, 'another form');
    t.equal((await raw(path, {}, 'HEAD')).body.length, 0);
  });

  t.test('the first page is small', async (t) => {
    const fetched = new Set<string>();
    let bytes = 0;
    async function take(path: string): Promise<void> {
      if (fetched.has(path)) return;
      fetched.add(path);
      const answer = await raw(path, { 'Accept-Encoding': 'gzip, deflate, br' });
      bytes += answer.body.length;
      const isPacked = answer.headers['content-encoding'] === 'br';
      const text = (isPacked ? brotliDecompressSync(answer.body) : answer.body).toString();
      // What is imported at once, not what is fetched when a page is opened.
      for (const [, name] of text.matchAll(
        /(?:from|import|src=|href=)\s*"(?:\.|\/assets)?\/([\w-]+\.(?:js|css|svg))"/g,
      )) {
        await take(`/assets/${name}`);
      }
      const [latin] = /\/assets\/inter-latin-(?!ext)[\w-]+\.woff2/.exec(text) ?? [];
      if (latin !== undefined) await take(latin);
    }
    await take('/');
    t.equal(fetched.size, FIRST_PAGE_FILES, [...fetched].join(' '));
    t.ok(bytes < FIRST_PAGE_BYTES, `${bytes} bytes of ${fetched.size} files`);
  });

  t.test(
    'a browser that looks for a page which there is not gets one that says so; the scans have addresses',
    async (t) => {
      const accept = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
      const page = await (await fetch(url)).text();
      const stray = await fetch(`${url}/nothing/here`, { headers: accept });
      t.equal(stray.status, 404);
      t.equal(await stray.text(), page);
      t.match(stray.headers.get('content-security-policy'), /default-src 'none'/);
      for (const path of ['/web/nothing', '/assets/nothing.js']) {
        t.match((await fetch(`${url}${path}`, { headers: accept })).headers.get('content-type'), /json/, path);
      }
      t.equal(await (await fetch(`${url}/scans/0190c5f0-0000-7000-8000-00000000a11c`)).text(), page);
    },
  );

  t.test('what is no page is a JSON 404, and pages take no other method', async (t) => {
    const paths = [
      '/nothing',
      '/scan/deeper',
      '/docs/nothing',
      '/assets/nothing.js',
      '/assets/..%2Findex.html',
      '/index.html',
      '/web/nothing',
      '/%2e%2e/package.json',
    ];
    for (const path of paths) {
      const answer = await fetch(`${url}${path}`);
      t.equal(answer.status, 404, path);
      t.match(answer.headers.get('content-type'), /application\/json/);
    }
    t.equal((await fetch(`${url}/api/nothing`)).status, 401, 'the API asks for the key first');
    const posted = await fetch(`${url}/scan`, { method: 'POST' });
    t.equal(posted.status, 405);
    t.equal(posted.headers.get('allow'), 'GET, HEAD');
  });
});
