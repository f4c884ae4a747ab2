// The pages of the dashboard and of the documentation: files that the build made, served from memory under a strict policy.
import { Failure } from './errors.js';
import type { Exchange, Reply } from './http/exchange.js';
import type { Route } from './http/router.js';
import { fileReply, readStaticFiles, type StaticFile } from './http/static-files.js';

/** Addresses that the client knows by itself: each is answered with the one page. */
export const pagePaths: readonly string[] = [
  '/',
  '/sign-in',
  '/register',
  '/scan',
  '/history',
  '/keys',
  '/billing',
  '/account',
  '/docs',
];
/** Guides beside the reference, by the names of their files in docs/, where operators and developers have other pages. */
export const guides: readonly string[] = ['quick-start', 'errors', 'url-scans', 'quotas', 'billing-webhooks'];

/** Nothing inline and nothing from elsewhere. Pictures inside of style sheets are `data:`. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const pageHeaders = {
  'Content-Security-Policy': POLICY,
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Cache-Control': 'no-cache',
};
/** Their names have a hash of their content. */
const assetHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable' };

/** Throws when the build has not made the pages. */
export function createPageRoutes(directory: string): Route[] {
  const files = readStaticFiles(directory);
  const page = files.get('index.html');
  if (page === undefined) throw new Error(`${directory} has no index.html: run \`node build.mjs\``);
  const route = (path: string, handle: Route['handle']): Route => ({ method: 'GET', path, operation: null, handle });
  const atRoot = [...files.keys()].filter((name) => !name.includes('/') && name !== 'index.html');
  return [
    ...[...pagePaths, ...guides.map((guide) => `/docs/${guide}`)].map((path) =>
      route(path, (exchange) => fileReply(page, exchange, pageHeaders)),
    ),
    ...atRoot.map((name) =>
      route(`/${name}`, (exchange) => found(files.get(name), exchange, { 'Cache-Control': 'no-cache' })),
    ),
    route('/assets/{name}', (exchange, { name = '' }) => found(files.get(`assets/${name}`), exchange, assetHeaders)),
  ];
}

function found(file: StaticFile | undefined, exchange: Exchange, headers: Readonly<Record<string, string>>): Reply {
  if (file === undefined) throw new Failure('notFound', exchange.path);
  return fileReply(file, exchange, headers);
}
