// Who is signed in, and the routes that are theirs: what the rooms of the dashboard API share without knowing each other.
import type { KeyRules } from '../config/plans.js';
import type { ErrorCode } from '../errors.js';
import type { Exchange } from './exchange.js';
import type { Operation } from './openapi.js';
import { type Answered, type PathParameters, type Route, type RouteName, unknownQuery } from './router.js';

export interface Caller {
  readonly userId: string;
  readonly plan: string;
  /** Scans per hour in place of the plan's; null: the plan decides. */
  readonly ownLimit: number | null;
  readonly role: 'user' | 'operator';
  /** Null: the token is a third-party issuer's, whose sessions are not ours. */
  readonly sessionId: string | null;
  /** Signing in takes a code as well. Of a third-party issuer's token nobody knows. */
  readonly twoFactor: boolean;
}

/** What a route says of itself beside what follows from who may ask it. */
export interface GuardedOperation extends Omit<Operation, 'who' | 'errors'> {
  readonly errors?: readonly ErrorCode[];
}

const JSON_ERRORS = ['badRequest', 'bodyTooLarge', 'uploadTooSlow', 'jsonExpected'] as const;

/** The operation with all that it can answer: `guards` before it is asked, and what the reading of a JSON body throws. */
export function withGuards(
  { operation }: { readonly operation: GuardedOperation },
  who: Operation['who'],
  guards: readonly ErrorCode[],
): Operation {
  const types = Object.keys(Object(operation.requestBody?.['content']));
  const body = types.length === 1 && types[0] === 'application/json' ? JSON_ERRORS : [];
  return { ...operation, who, errors: [...guards, ...body, ...(operation.errors ?? [])] };
}

/** A route of `/web/**`: it is asked only when an access token was accepted. */
export interface CallerRoute {
  readonly name: RouteName;
  readonly operation: GuardedOperation;
  /** Takes the body of a user (an id) who is likely to be the caller, while that is asked: nothing of it gets out before `handle`. Null, and by default: it waits. */
  begin?(userId: string, exchange: Exchange): Droppable | null;
  /** `begun`: by `begin`. Null: it answers the exchange by itself, after this call. */
  handle(
    caller: Caller,
    exchange: Exchange,
    parameters: PathParameters,
    begun: Droppable | null,
  ): Answered | Promise<Answered>;
}

export function callerRoute(name: RouteName, operation: GuardedOperation, handle: CallerRoute['handle']): CallerRoute {
  return { name, operation, handle };
}

export const isReading = ({ name }: Pick<Route, 'name'>): boolean => name.startsWith('GET ');

interface Droppable {
  /** The caller is refused. */
  drop(): void;
}

/** Accepts or refuses the caller: throws Failure `tokenMissing`, `tokenInvalid`, `tokenExpired`, `crossSite` or `unavailable`. */
export type Authenticate = (exchange: Exchange) => Promise<Caller>;

/** The id of the user whom `Authenticate` is likely to accept; null: nobody knows. Costs nothing. */
export type LikelyUser = (exchange: Exchange) => string | null;

/** What every route behind the sign-in can answer as well; one that changes something answers `crossSite`, too. */
const SIGN_IN_ERRORS = ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'accountSuspended', 'unavailable'] as const;

export function behindSignIn(
  routes: readonly CallerRoute[],
  authenticate: Authenticate,
  likelyUser: LikelyUser = () => null,
): Route[] {
  return routes.map((route) => ({
    name: route.name,
    operation: withGuards(route, 'user', isReading(route) ? SIGN_IN_ERRORS : [...SIGN_IN_ERRORS, 'crossSite']),
    // Before the body is read: that of a caller who isn't signed in is not read at all, unless its token was accepted a moment before.
    async handle(exchange, parameters) {
      const userId = route.begin === undefined ? null : likelyUser(exchange);
      const begun = userId === null ? null : (route.begin?.(userId, exchange) ?? null);
      try {
        const caller = await authenticate(exchange);
        exchange.isVouchedFor = true;
        const unknown = unknownQuery(route.operation, exchange.query);
        if (unknown !== null) throw unknown;
        return await route.handle(caller, exchange, parameters, begun);
      } catch (error) {
        begun?.drop();
        throw error;
      }
    },
  }));
}

interface KeyCaller {
  readonly userId: string;
  readonly keyId: string;
  /** Of the account's plan. */
  readonly hourlyLimit: number;
  /** Absent: the key may all that its account may. */
  readonly rules?: KeyRules | undefined;
}

/** A route of `/api/**`: it is asked only when the key is live, and the account hasn't asked too often. */
export interface KeyRoute {
  readonly name: RouteName;
  readonly operation: GuardedOperation;
  handle(caller: KeyCaller, exchange: Exchange, parameters: PathParameters): Answered | Promise<Answered>;
}

export function keyRoute(name: RouteName, operation: GuardedOperation, handle: KeyRoute['handle']): KeyRoute {
  return { name, operation, handle };
}

/** Throws Failure `keyMissing`, `keyInvalid`, `accountSuspended`, `scopeMissing`, `tooManyRequests` or `unavailable`. */
export type AuthenticateKey = (exchange: Exchange) => Promise<KeyCaller>;

/** What every route behind a key can answer as well. */
const KEY_ERRORS = [
  'keyMissing',
  'keyInvalid',
  'accountSuspended',
  'scopeMissing',
  'tooManyRequests',
  'unavailable',
] as const;

export function behindKey(routes: readonly KeyRoute[], authenticate: AuthenticateKey): Route[] {
  return routes.map((route) => ({
    name: route.name,
    operation: withGuards(route, 'key', KEY_ERRORS),
    async handle(exchange, parameters) {
      const caller = await authenticate(exchange);
      exchange.isVouchedFor = true;
      return await route.handle(caller, exchange, parameters);
    },
  }));
}
