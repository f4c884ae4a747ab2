// The routes of a user's own API keys, and what is said of a key when it is made or changed: its limits on the wire, checked against what its
// account may.
import { z } from 'zod';
import { KEY_SCOPES, type KeyLimits, limitOf } from '../config/plans.js';
import { Failure } from '../errors.js';
import { type Caller, type CallerRoute, callerRoute, type GuardedOperation } from '../http/caller.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody, pathParameter } from '../http/openapi.js';
import { WireTime, wireTime } from '../wire-text.js';
import {
  type CreatedKey,
  changeKey,
  createKeyWithinLimit,
  endKey,
  LIVE_KEYS_MAX,
  type ListedKey,
  listKeys,
  NO_LIMITS,
} from './keys.js';
import type { AccountParts } from './parts.js';
import { type Rule, rules } from './throttle.js';
import { SomeNameField } from './users.js';

const SECOND_MS = 1000;

const NOT_A_TIME = 'must be a UTC time like 2030-01-31T00:00:00';
const Expires = z
  .string()
  .regex(/^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?$/, NOT_A_TIME)
  .refine((text) => isTime(text), NOT_A_TIME);

function isTime(text: string): boolean {
  const ms = msOf(text);
  return !Number.isNaN(ms) && text.startsWith(wireTime(ms));
}

const msOf = (text: string): number => Date.parse(text.endsWith('Z') ? text : `${text}Z`);

/** Of a new key, or of one that is changed: there what is left out stays. */
export const LimitFields = {
  expires: Expires.nullable().optional().describe('UTC, in the future; from then on the key is refused. null: never.'),
  hourlyLimit: z
    .int()
    .min(1)
    .nullable()
    .optional()
    .describe("Scans per hour of this key alone, at most the account's. null: as many as the account has."),
  scopes: z
    .array(z.enum(KEY_SCOPES, { error: `must be one of ${KEY_SCOPES.join(', ')}` }))
    .min(1, 'must name a scope')
    .max(KEY_SCOPES.length)
    .refine((scopes) => new Set(scopes).size === scopes.length, 'must have each only once')
    .nullable()
    .optional()
    .describe('`scan`: may scan. `read`: may ask for scans and for the account. Both when left out.'),
};

const Limits = z.object(LimitFields);

/** As an owner sees them. */
const LimitViews = {
  expires: WireTime.nullable().describe('UTC; from then on it is refused. null: never.'),
  hourlyLimit: z.int().nullable().describe('Scans per hour of this key alone. null: as many as the account has.'),
  scopes: z.array(z.enum(KEY_SCOPES)),
};

function limitViews({ expiresAtSeconds, hourlyLimit, scopes }: KeyLimits) {
  const expires = expiresAtSeconds === null ? null : wireTime(expiresAtSeconds * SECOND_MS);
  return { expires, hourlyLimit, scopes: [...scopes] };
}

/** What was said; the rest is absent. Throws Failure `badRequest`. */
export function limitsIn(
  { expires, hourlyLimit, scopes }: z.infer<typeof Limits>,
  within: { readonly hourlyLimit: number; readonly nowMs: number },
): Partial<KeyLimits> {
  if (typeof expires === 'string' && msOf(expires) <= within.nowMs) {
    throw new Failure('badRequest', 'expires: must be in the future');
  }
  if (typeof hourlyLimit === 'number' && hourlyLimit > within.hourlyLimit) {
    throw new Failure('badRequest', `hourlyLimit: must be at most ${within.hourlyLimit}, which the account has`);
  }
  return {
    ...(expires === undefined ? {} : { expiresAtSeconds: expires === null ? null : msOf(expires) / SECOND_MS }),
    ...(hourlyLimit === undefined ? {} : { hourlyLimit }),
    ...(scopes === undefined ? {} : { scopes: scopes ?? KEY_SCOPES }),
  };
}

type KeyRouteParts = Pick<AccountParts, 'sqlOf' | 'throttle' | 'admission' | 'plans' | 'now' | 'settled'>;

export const KeyView = z
  .object({
    uuid: z.uuid(),
    name: z.string(),
    value: z.string().length(32).describe('Its first and last four characters, with stars between them'),
    creationDate: WireTime,
    lastUse: WireTime.nullable().describe('UTC, of the last scan that succeeded; null: none yet'),
    ...LimitViews,
  })
  .meta({ id: 'ApiKey' });
type KeyView = z.infer<typeof KeyView>;

/** The only time that the value is shown. */
const NewKeyView = KeyView.extend({
  value: KeyView.shape.value.describe('Send it as X-API-KEY: 32 hexadecimal characters'),
}).meta({ id: 'NewApiKey' });

const NewKey = z.strictObject({ name: SomeNameField, ...LimitFields }).meta({ id: 'ApiKeySettings' });
const ChangedKey = z
  .strictObject({ name: SomeNameField.nullable().optional(), ...LimitFields })
  .refine((change) => Object.keys(change).length > 0, 'Send at least one of name, expires, hourlyLimit and scopes')
  .meta({ id: 'ApiKeyChange', description: 'What is left out stays.' });

export function createKeyRoutes(parts: KeyRouteParts): CallerRoute[] {
  const { sqlOf, throttle, admission, plans, now, settled } = parts;
  const within = ({ plan, ownLimit }: Caller) => {
    return { hourlyLimit: limitOf(plans, { plan, ownLimit, isSuspended: false }), nowMs: now() };
  };
  return [
    callerRoute('GET /web/keys/me', listOperation, async ({ userId }) => {
      await settled(userId);
      return jsonReply(200, (await listKeys(sqlOf(userId), userId)).map(listedView));
    }),
    callerRoute('POST /web/keys', createOperation, async (caller, exchange) => {
      const { userId } = caller;
      const { name, ...fields } = await readJson(exchange, NewKey);
      const limits = { ...NO_LIMITS, ...limitsIn(fields, within(caller)) };
      const sql = sqlOf(userId);
      await throttle.require(sql, [[rules.keyCreationsOfUser, userId]]);
      const key = await sql.transaction('readCommitted', (tx) => createKeyWithinLimit(tx, { userId, name, limits }));
      if (key === null) throw new Failure('conflict', `You have ${LIVE_KEYS_MAX} keys: delete one first`);
      return jsonReply(201, createdView(key));
    }),
    callerRoute('PUT /web/keys/{uuid}', changeOperation, async (caller, exchange, { uuid }) => {
      const { userId } = caller;
      const { name, ...fields } = await readJson(exchange, ChangedKey);
      const change = { ...(typeof name === 'string' ? { name } : {}), ...limitsIn(fields, within(caller)) };
      const sql = sqlOf(userId);
      await throttle.require(sql, [[rules.keyChangesOfUser, userId]]);
      const keyId = z.guid().safeParse(uuid);
      await settled(userId);
      const key = keyId.success ? await changeKey(sql, admission, { userId, keyId: keyId.data }, change) : null;
      if (key === null) throw new Failure('notFound', 'the key');
      return jsonReply(200, listedView(key));
    }),
    callerRoute('DELETE /web/keys/{uuid}', revokeOperation, async ({ userId }, _exchange, { uuid = '' }) => {
      const sql = sqlOf(userId);
      await throttle.require(sql, [[rules.keyEndsOfUser, userId]]);
      // What was sent may be a key that works: it isn't repeated.
      if ((await endKey(sql, admission, userId, uuid)) === null) throw new Failure('notFound', 'the key');
      return noContent;
    }),
  ];
}

export const createdView = (key: CreatedKey): KeyView => ({ ...listedView(key), value: key.value });

export function listedView({ keyId, name, masked, creationDate, lastUse, limits }: ListedKey): KeyView {
  const view = { uuid: keyId, name, value: masked, creationDate: wireTime(creationDate) };
  return { ...view, lastUse: lastUse === null ? null : wireTime(lastUse), ...limitViews(limits) };
}

const perHour = ({ everyMs }: Rule): number => 3_600_000 / everyMs;

const listOperation: GuardedOperation = {
  summary: 'Your live API keys, the newest first',
  tag: 'keys',
  responses: { 200: jsonAnswer('The keys.', z.array(KeyView)) },
};

const createOperation: GuardedOperation = {
  summary: 'Makes an API key, which works at once',
  description: `At most ${LIVE_KEYS_MAX} live keys for each user. ${rules.keyCreationsOfUser.burst} creations may come at once, then ${perHour(rules.keyCreationsOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  requestBody: jsonBody(NewKey),
  responses: { 201: jsonAnswer('The key with its whole value, which is not shown again.', NewKeyView) },
  errors: ['conflict', 'tooManyAttempts'],
};

const changeOperation: GuardedOperation = {
  summary: 'Changes the name of one of your API keys, or what it may',
  description:
    'From the answer on every node admits it by what was changed. After a 503 that is not certain: send the same request again. A key whose time is over ' +
    `comes back with another \`expires\`. ${rules.keyChangesOfUser.burst} requests may come at once, then ${perHour(rules.keyChangesOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  parameters: [pathParameter('uuid', z.string().describe("The key's `uuid`."))],
  requestBody: jsonBody(ChangedKey),
  responses: { 200: jsonAnswer('The key as it is now.', KeyView) },
  errors: ['notFound', 'tooManyAttempts'],
};

const revokeOperation: GuardedOperation = {
  summary: 'Ends one of your API keys for good: from the answer on every node refuses it',
  description:
    'After a 503 it is not certain that every node refuses it: send the same request again. Of several at the same time one gets ' +
    `the 204. ${rules.keyEndsOfUser.burst} requests may come at once, then ${perHour(rules.keyEndsOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  parameters: [
    pathParameter(
      'uuid',
      z.string().describe("The key's `uuid`, or its value with or without dashes; what is both is taken as a `uuid`."),
    ),
  ],
  responses: { 204: { description: 'Ended.' } },
  errors: ['notFound', 'tooManyAttempts'],
};
