// The two cookies of a sign-in: how they are written and how they are read back.

import { REFRESH_TOKEN_MS } from './refresh-tokens.js';
import { ACCESS_TOKEN_SECONDS } from './tokens.js';

export const ACCESS_COOKIE = 'sluice_access';
export const REFRESH_COOKIE = 'sluice_refresh';

const REFRESH_PATH = '/web/auth';

export interface CookieOptions {
  /** Behind https: then browsers send them nowhere else. */
  readonly secure: boolean;
}

export function signedInCookies(tokens: { readonly access: string; readonly refresh: string }, options: CookieOptions) {
  return [
    cookie(ACCESS_COOKIE, tokens.access, '/', ACCESS_TOKEN_SECONDS, options),
    cookie(REFRESH_COOKIE, tokens.refresh, REFRESH_PATH, REFRESH_TOKEN_MS / 1000, options),
  ];
}

export function signedOutCookies(options: CookieOptions): string[] {
  return [cookie(ACCESS_COOKIE, '', '/', 0, options), cookie(REFRESH_COOKIE, '', REFRESH_PATH, 0, options)];
}

function cookie(name: string, value: string, path: string, maxAgeSeconds: number, { secure }: CookieOptions): string {
  const attributes = `Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
  return `${name}=${value}; ${attributes}${secure ? '; Secure' : ''}`;
}

/** Every value that a Cookie header has for a name (RFC 6265 section 5.4): more than one when another site of the domain set one, too. */
export function readCookies(header: string | undefined, name: string): string[] {
  return (header ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=');
    return equals !== -1 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : [];
  });
}
