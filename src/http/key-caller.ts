// Whose API key a request has, and the routes that ask for one and take no unit: what the rooms of the public API share without knowing each other.
import type { KeyRules } from '../config/key-rules.js';
import type { Exchange } from './exchange.js';
import type { Operation } from './openapi.js';
import type { Answered, PathParameters, Route } from './router.js';

export interface KeyCaller {
  readonly userId: string;
  readonly keyId: string;
  /** Of the account's plan. */
  readonly hourlyLimit: number;
  /** Absent: the key may all that its account may. */
  readonly rules?: KeyRules | undefined;
}

/** A route of `/api/**`: it is asked only when the key is live, and the account hasn't asked too often. */
export interface KeyRoute {
  readonly method: Route['method'];
  readonly path: string;
  readonly operation: Operation;
  handle(caller: KeyCaller, exchange: Exchange, parameters: PathParameters): Answered | Promise<Answered>;
}

/** Throws Failure `keyMissing`, `keyInvalid`, `accountSuspended`, `scopeMissing`, `tooManyRequests` or `unavailable`. */
export type AuthenticateKey = (exchange: Exchange) => Promise<KeyCaller>;

/** What every route behind a key can answer as well, for its operation. */
export const keyCallerErrors = [
  'keyMissing',
  'keyInvalid',
  'accountSuspended',
  'scopeMissing',
  'tooManyRequests',
  'unavailable',
] as const;

export function behindKey(routes: readonly KeyRoute[], authenticate: AuthenticateKey): Route[] {
  return routes.map((route) => ({
    method: route.method,
    path: route.path,
    operation: route.operation,
    async handle(exchange, parameters) {
      const caller = await authenticate(exchange);
      exchange.isVouchedFor = true;
      return await route.handle(caller, exchange, parameters);
    },
  }));
}
