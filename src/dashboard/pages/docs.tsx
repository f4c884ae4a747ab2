// The documentation: the reference made from the OpenAPI document, and the guides beside it. For anybody.
import { lazy, Suspense } from 'react';
import { Link } from 'wouter';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';
import { NotFound } from './not-found.tsx';
import './docs.css';

const t = texts.docs;

const Reference = lazy(async () => ({ default: (await import('./docs-reference.tsx')).Reference }));

/** Their files are in docs/. */
const guides: Readonly<Record<string, { readonly title: string; readonly Page: ReturnType<typeof guideOf> }>> = {
  'quick-start': { title: t.guides['quick-start'], Page: guideOf(() => import('../../../docs/quick-start.md')) },
  errors: { title: t.guides.errors, Page: guideOf(() => import('../../../docs/errors.md')) },
  'url-scans': { title: t.guides['url-scans'], Page: guideOf(() => import('../../../docs/url-scans.md')) },
  quotas: { title: t.guides.quotas, Page: guideOf(() => import('../../../docs/quotas.md')) },
  'billing-webhooks': {
    title: t.guides['billing-webhooks'],
    Page: guideOf(() => import('../../../docs/billing-webhooks.md')),
  },
};

/** The HTML is made from our own files at the build: nothing in it comes from a user. */
function guideOf(load: () => Promise<{ readonly html: string }>) {
  return lazy(async () => {
    const { html } = await load();
    // biome-ignore lint/security/noDangerouslySetInnerHtml: see above.
    return { default: () => <article className="guide" dangerouslySetInnerHTML={{ __html: html }} /> };
  });
}

export function Docs({ guide }: { readonly guide: string | null }) {
  const shown = guide === null ? null : (guides[guide] ?? null);
  if (guide !== null && shown === null) return <NotFound />;
  return (
    <>
      <PageTitle title={shown === null ? t.title : shown.title} />
      <div className="docs">
        <nav className="docs-nav" aria-label={t.nav}>
          <DocLink path="/docs" label={t.reference} isShown={shown === null} />
          {Object.entries(guides).map(([name, { title }]) => (
            <DocLink key={name} path={`/docs/${name}`} label={title} isShown={name === guide} />
          ))}
          <a className="docs-link" href="/openapi.json">
            {t.raw}
          </a>
        </nav>
        <div className="panel docs-page">
          <Suspense fallback={<PageSkeleton />}>{shown === null ? <Reference /> : <shown.Page />}</Suspense>
        </div>
      </div>
    </>
  );
}

function DocLink({
  path,
  label,
  isShown,
}: {
  readonly path: string;
  readonly label: string;
  readonly isShown: boolean;
}) {
  return (
    <Link href={path} className="docs-link" aria-current={isShown ? 'page' : undefined}>
      {label}
    </Link>
  );
}
