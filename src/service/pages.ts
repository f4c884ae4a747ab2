// The pages of the dashboard and of the documentation: files that the build made, served from memory under a strict policy.
import { Failure } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import type { Reply } from '../http/reply.js';
import type { PathParameters, Route } from '../http/router.js';
import { fileReply, readStaticFiles, type StaticFile } from '../http/static-files.js';

/** Addresses that the client knows by itself: each is answered with the one page. */
export const pagePaths: readonly string[] = [
  '/',
  '/sign-in',
  '/register',
  '/reset',
  '/scan',
  '/history',
  '/keys',
  '/webhooks',
  '/billing',
  '/account',
  '/admin',
  '/admin/accounts',
  '/admin/activity',
  '/admin/audit',
  '/docs',
  '/docs/reference',
];
/** Guides beside the reference, by the names of their files in docs/, where operators and developers have other pages. */
export const guides: readonly string[] = [
  'quick-start',
  'errors',
  'url-scans',
  'quotas',
  'webhooks',
  'billing-webhooks',
];

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

/** Below these there are no pages: what asks for them is a program, whatever it accepts. */
const NO_PAGES = /^\/(?:api|web|assets)\//;
const WITHOUT_CONDITIONS: ReadonlyMap<string, string> = new Map();

/** The one document. */
const PAGE = 'index.html';
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

export type Pages = ReturnType<typeof openPages>;

/** Throws when the build has not made the pages. */
export function openPages(directory: string) {
  const files = readStaticFiles(directory, (path) => (path === PAGE ? pageHeaders : assetHeaders));
  const page = files.get(PAGE);
  if (page === undefined) throw new Error(`${directory} has no ${PAGE}: run \`node build.mjs\``);
  const byPath = new Map<string, StaticFile>();
  for (const path of [...pagePaths, ...guides.map((guide) => `/docs/${guide}`)]) byPath.set(path, page);
  const routes = [...byPath].map(([path, file]) => route(path, () => file));
  routes.push(route('/assets/{name}', ({ name = '' }) => files.get(`assets/${name}`) ?? null));
  // The client finds the scan, or the webhook.
  routes.push(
    route('/scans/{id}', () => page),
    route('/webhooks/{id}', () => page),
  );
  return {
    routes,
    /** What a browser is shown that looks for a page which there is not, with a 404; null: it is no browser, or no page. */
    strayPage({ method, path, headers }: Exchange): Reply | null {
      const isPage = method === 'GET' && !NO_PAGES.test(path) && /\btext\/html\b/.test(headers.get('accept') ?? '');
      return isPage ? { ...fileReply(page, WITHOUT_CONDITIONS), status: 404 } : null;
    },
  };
}

function route(path: string, fileOf: (parameters: PathParameters) => StaticFile | null): Route {
  return {
    method: 'GET',
    path,
    operation: null,
    handle(exchange, parameters) {
      const file = fileOf(parameters);
      if (file === null) throw new Failure('notFound', exchange.path);
      return fileReply(file, exchange.headers);
    },
  };
}
