// The documentation: the guides, a search over all of them, and the reference made from the OpenAPI document. For anybody.
import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type MouseEvent, type ReactNode, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { queries } from '../api/query-client.ts';
import { copied } from '../parts/copy-button.tsx';
import { SearchIcon } from '../parts/icons.ts';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { loadPart, part } from '../shell/part.tsx';
import { texts } from '../texts.ts';
import { documentQuery } from './docs-document.ts';
import { NotFound } from './not-found.tsx';
import './docs.css';

const t = texts.docs;

const Reference = part(
  async () => {
    // Asked for beside the script, which is a long one.
    void queries.prefetchQuery(documentQuery);
    return (await import('./docs-reference.tsx')).Reference;
  },
  <PageSkeleton />,
);

interface Guide {
  readonly html: string;
  readonly sections: readonly { readonly anchor: string; readonly heading: string; readonly text: string }[];
}

type Load = () => Promise<Guide>;

/** Their files are in docs/. The first one is what the documentation opens on. */
const loads: Readonly<Record<keyof typeof t.guides, Load>> = {
  'quick-start': () => import('../../../docs/quick-start.md'),
  errors: () => import('../../../docs/errors.md'),
  'url-scans': () => import('../../../docs/url-scans.md'),
  quotas: () => import('../../../docs/quotas.md'),
  webhooks: () => import('../../../docs/webhooks.md'),
  'billing-webhooks': () => import('../../../docs/billing-webhooks.md'),
};
const FIRST = 'quick-start';
const REFERENCE = 'reference';

function isGuide(name: string): name is keyof typeof loads {
  return Object.hasOwn(loads, name);
}

const pages = new Map(Object.entries(loads).map(([name, load]) => [name, guideOf(load)]));

/** The HTML is made from our own files at the build: nothing in it comes from a user. */
function guideOf(load: Load) {
  return part(
    async () => {
      const { html, sections } = await load();
      // biome-ignore lint/correctness/noComponentHookFactories: it is made once for each guide.
      return function Guide() {
        useEffect(() => {
          document.getElementById(window.location.hash.slice(1))?.scrollIntoView();
        }, []);
        return (
          <div className="guide-page">
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: a button is clicked by the keyboard as well. */}
            {/* biome-ignore lint/security/noDangerouslySetInnerHtml: see above. */}
            <article className="guide" onClick={copyCode} dangerouslySetInnerHTML={{ __html: html }} />
            <Contents sections={sections} />
          </div>
        );
      };
    },
    <PageSkeleton />,
  );
}

/** Beside the text where there is room. */
function Contents({ sections }: Pick<Guide, 'sections'>) {
  return (
    <nav className="guide-contents" aria-label={t.contents}>
      <p className="guide-contents-title">{t.contents}</p>
      {sections
        .filter(({ anchor }) => anchor !== '')
        .map(({ anchor, heading }) => (
          <a key={anchor} href={`#${anchor}`}>
            {heading}
          </a>
        ))}
    </nav>
  );
}

async function copyCode({ target }: MouseEvent): Promise<void> {
  if (!(target instanceof HTMLButtonElement) || !target.classList.contains('guide-copy')) return;
  const code = target.parentElement?.querySelector('code')?.textContent ?? '';
  target.textContent = (await copied(code, target)) ? texts.common.copied : texts.common.copyFailed;
}

export function Docs({ guide }: { readonly guide: string | null }) {
  const name = guide ?? FIRST;
  const [search, setSearch] = useState('');
  const Page = pages.get(name);
  if (Page === undefined && name !== REFERENCE) return <NotFound />;
  const sought = search.trim().toLowerCase();
  const isSearch = sought.length > 1;
  const title = isSearch ? t.searchHint : isGuide(name) ? t.guides[name] : t.reference;
  return (
    <>
      <PageTitle title={title} />
      <div className="docs">
        <div className="docs-side">
          <TextInput
            aria-label={t.search}
            placeholder={t.searchHint}
            leftSection={<SearchIcon />}
            value={search}
            onChange={({ currentTarget }) => setSearch(currentTarget.value)}
          />
          <nav className="docs-nav" aria-label={t.nav}>
            {Object.entries(t.guides).map(([path, label]) => (
              <DocLink
                key={path}
                path={path === FIRST ? '/docs' : `/docs/${path}`}
                label={label}
                isShown={path === name}
              />
            ))}
            <DocLink path={`/docs/${REFERENCE}`} label={t.reference} isShown={name === REFERENCE} />
            <a className="docs-link" href="/openapi.json">
              {t.raw}
            </a>
          </nav>
        </div>
        <div className="panel docs-page">
          {isSearch ? <Found text={sought} done={() => setSearch('')} /> : shownOf(Page, name)}
        </div>
      </div>
    </>
  );
}

function shownOf(Page: ReturnType<typeof guideOf> | undefined, name: string): ReactNode {
  return Page === undefined ? <Reference /> : <Page key={name} />;
}

const SHOWN_CHARACTERS = 160;

function Found({ text, done }: { readonly text: string; readonly done: () => void }) {
  const all = useQuery({
    queryKey: ['docs'],
    queryFn: async () =>
      await Promise.all(Object.entries(loads).map(async ([name, load]) => ({ name, ...(await loadPart(load)) }))),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (all.data === undefined) return <PageSkeleton />;
  const found = all.data.flatMap(({ name, sections }) =>
    sections
      .filter((section) => `${section.heading} ${section.text}`.toLowerCase().includes(text))
      .map((section) => ({ name, ...section })),
  );
  return (
    <>
      <p className="dimmed" role="status">
        {t.found(found.length)}
      </p>
      <ul className="docs-found">
        {found.map(({ name, anchor, heading, text: around }) => (
          <li key={`${name} ${anchor}`}>
            <Link href={`/docs/${name}${anchor === '' ? '' : `#${anchor}`}`} onClick={done}>
              {isGuide(name) ? t.guides[name] : name}
              {heading === '' ? '' : ` · ${heading}`}
            </Link>
            <p className="dimmed small">{excerpt(around, text)}</p>
          </li>
        ))}
      </ul>
    </>
  );
}

function excerpt(text: string, sought: string): string {
  const at = Math.max(0, text.toLowerCase().indexOf(sought) - SHOWN_CHARACTERS / 3);
  return `${at > 0 ? '… ' : ''}${text.slice(at, at + SHOWN_CHARACTERS)} …`;
}

interface DocLinkProps {
  readonly path: string;
  readonly label: string;
  readonly isShown: boolean;
}

function DocLink({ path, label, isShown }: DocLinkProps) {
  return (
    <Link href={path} className="docs-link" aria-current={isShown ? 'page' : undefined}>
      {label}
    </Link>
  );
}
