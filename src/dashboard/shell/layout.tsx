// The frame of every page: where one is, where one can go, and who one is.
import { Burger } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { type ReactNode, useEffect, useRef } from 'react';
import { Link, useLocation } from 'wouter';
import mark from '../favicon.svg';
import { DocsIcon, HistoryIcon, KeyIcon, OverviewIcon, ScanIcon, WebhookIcon } from '../parts/icons.ts';
import { texts } from '../texts.ts';
import { part } from './part.tsx';
import { SchemeSwitch } from './scheme-switch.tsx';
import { Unreachable } from './unreachable.tsx';
import { useSignedIn } from './use-signed-in.ts';

// It comes with the pages behind the sign-in.
const UserMenu = part(async () => (await import('./signed-in-pages.tsx')).UserMenu, <span className="user" />);

/** What is done often; the account and billing are in the menu of the user. */
const pages = [
  ['/', texts.nav.overview, OverviewIcon],
  ['/scan', texts.nav.scan, ScanIcon],
  ['/history', texts.nav.history, HistoryIcon],
  ['/keys', texts.nav.keys, KeyIcon],
  ['/webhooks', texts.nav.webhooks, WebhookIcon],
] as const;

export function Layout({ children }: { readonly children: ReactNode }) {
  const [location] = useLocation();
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const main = useMainOnNavigation(location, close);
  return (
    <div className="layout">
      <a className="layout-skip" href="#content">
        {texts.nav.skip}
      </a>
      <header className="layout-header">
        <div className="layout-bar">
          <Link href="/" className="layout-brand">
            <img src={mark} alt="" width={28} height={28} />
            {texts.product}
          </Link>
          <Burger
            className="layout-burger"
            opened={isOpen}
            onClick={toggle}
            size="sm"
            aria-label={isOpen ? texts.nav.close : texts.nav.open}
            aria-expanded={isOpen}
            aria-controls="navigation"
          />
          <nav id="navigation" aria-label={texts.nav.label} className="layout-nav" data-open={isOpen}>
            <Navigation location={location} />
          </nav>
        </div>
      </header>
      <Unreachable />
      <main id="content" className="layout-main" tabIndex={-1} ref={main}>
        {children}
      </main>
    </div>
  );
}

/** A screen reader reads out that the page is another one: its content has the focus after each navigation, but not after the first load. */
function useMainOnNavigation(location: string, close: () => void) {
  const main = useRef<HTMLElement>(null);
  const shown = useRef(location);
  useEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    close();
    main.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [location, close]);
  return main;
}

/** Scans are below the history, though not by their address. */
function isBelow(location: string, path: string): boolean {
  if (path === '/history' && location.startsWith('/scans/')) return true;
  return location === path || location.startsWith(`${path}/`);
}

function Navigation({ location }: { readonly location: string }) {
  const signedIn = useSignedIn();
  return (
    <>
      {signedIn &&
        pages.map(([path, label, Icon]) => (
          <Link
            key={path}
            href={path}
            className="layout-link"
            aria-current={isBelow(location, path) ? 'page' : undefined}
          >
            <Icon />
            {label}
          </Link>
        ))}
      <span className="layout-end">
        <Link href="/docs" className="layout-link" aria-current={location.startsWith('/docs') ? 'page' : undefined}>
          <DocsIcon />
          {texts.nav.docs}
        </Link>
        <SchemeSwitch />
        {signedIn ? <UserMenu /> : <SignInLink location={location} />}
      </span>
    </>
  );
}

function SignInLink({ location }: { readonly location: string }) {
  if (location === '/sign-in') return null;
  return (
    <Link href="/sign-in" className="layout-link">
      {texts.nav.signIn}
    </Link>
  );
}
