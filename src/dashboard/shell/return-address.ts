// The way through the sign-in and back: the address of the page is kept, and only ever one of this site.
import type { EndReason } from '../api/session.ts';

/** The address of the sign-in that leads back to the page that is shown. */
export function signInAddress(reason: EndReason | null): string {
  const { pathname, search } = window.location;
  // Who is there already stays there, with the way back that was given.
  if (pathname === '/sign-in') return `${pathname}${search}`;
  const query = new URLSearchParams();
  if (reason !== null) query.set('reason', reason);
  if (pathname !== '/') query.set('next', `${pathname}${search}`);
  const text = query.toString();
  return text === '' ? '/sign-in' : `/sign-in?${text}`;
}

/** Where to go after the sign-in. An address of another site, in whatever spelling, is none. */
export function returnAddress(next: string | null): string {
  if (next === null || !next.startsWith('/')) return '/';
  const { origin } = window.location;
  if (!URL.canParse(next, origin)) return '/';
  const url = new URL(next, origin);
  return url.origin === origin ? `${url.pathname}${url.search}` : '/';
}
