// The frame of every page: where one is, where one can go, and who one is.
import { Burger, Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef } from 'react';
import { Link, useLocation } from 'wouter';
import { askOpenly } from '../api/client.ts';
import { forgetSession } from '../api/session.ts';
import { Nothing } from '../api/shapes.ts';
import mark from '../favicon.svg';
import { showProblem } from '../parts/problem.tsx';
import { texts } from '../texts.ts';
import { SchemeSwitch } from './scheme-switch.tsx';
import { useSignedIn } from './use-signed-in.ts';

const pages = [
  ['/', texts.nav.overview],
  ['/scan', texts.nav.scan],
  ['/history', texts.nav.history],
  ['/keys', texts.nav.keys],
  ['/billing', texts.nav.billing],
  ['/account', texts.nav.account],
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

function Navigation({ location }: { readonly location: string }) {
  const signedIn = useSignedIn();
  return (
    <>
      {signedIn &&
        pages.map(([path, label]) => (
          <Link key={path} href={path} className="layout-link" aria-current={location === path ? 'page' : undefined}>
            {label}
          </Link>
        ))}
      <span className="layout-end">
        <Link href="/docs" className="layout-link" aria-current={location.startsWith('/docs') ? 'page' : undefined}>
          {texts.nav.docs}
        </Link>
        <SchemeSwitch />
        {signedIn ? <SignOut /> : <SignInLink location={location} />}
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

function SignOut() {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  async function signOut(): Promise<void> {
    try {
      await askOpenly({ method: 'POST', path: '/web/auth/logout', shape: Nothing });
    } catch (error) {
      // The session still lives: saying otherwise would be a lie.
      showProblem(error);
      return;
    }
    forgetSession();
    client.clear();
    navigate('/');
  }
  return (
    <Button variant="default" size="compact-sm" onClick={signOut}>
      {texts.nav.signOut}
    </Button>
  );
}
