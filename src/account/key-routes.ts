// The routes of a user's own API keys.
import { z } from 'zod';
import { limitOf, type Plans } from '../config/plans.js';
import { Failure } from '../errors.js';
import type { Caller, CallerRoute } from '../http/caller.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import { jsonAnswer, jsonBody, type Operation, pathParameter } from '../http/openapi.js';
import type { SqlOf } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-text.js';
import { LimitFields, LimitViews, limitsIn, limitViews } from './key-fields.js';
import {
  type CreatedKey,
  changeKey,
  createKeyWithinLimit,
  endKey,
  type KeyNodes,
  LIVE_KEYS_MAX,
  type ListedKey,
  listKeys,
  NO_LIMITS,
} from './keys.js';
import { keyChangesOfUser, keyCreationsOfUser, keyEndsOfUser, type Rule, type Throttle } from './throttle.js';
import { SomeNameField } from './users.js';

export interface KeyRouteParts {
  readonly sqlOf: SqlOf;
  readonly throttle: Throttle;
  readonly admission: KeyNodes;
  readonly plans: Plans;
  readonly now: () => number;
  /** A use that this node knows of and Postgres perhaps not yet. */
  readonly recentUse: (keyId: string) => Date | null;
}

/** A key on the wire. */
const KeyView = z
  .object({
    uuid: z.uuid(),
    name: z.string(),
    value: z.string().length(32).describe('Its first and last four characters, with stars between them'),
    creationDate: WireTime,
    lastUse: WireTime.nullable().describe('UTC, of the last scan that succeeded; null: none yet'),
    ...LimitViews,
  })
  .meta({ id: 'ApiKey' });
export type KeyView = z.infer<typeof KeyView>;

/** The only time that the value is shown. */
const NewKeyView = KeyView.extend({
  value: KeyView.shape.value.describe('Send it as X-API-KEY: 32 hexadecimal characters'),
}).meta({ id: 'NewApiKey' });

const PATH = '/web/keys';
const NewKey = z.strictObject({ name: SomeNameField, ...LimitFields }).meta({ id: 'ApiKeySettings' });
const ChangedKey = z
  .strictObject({ name: SomeNameField.nullable().optional(), ...LimitFields })
  .refine((change) => Object.keys(change).length > 0, 'Send at least one of name, expires, hourlyLimit and scopes')
  .meta({ id: 'ApiKeyChange', description: 'What is left out stays.' });

export function createKeyRoutes(parts: KeyRouteParts): CallerRoute[] {
  const { sqlOf, throttle, admission, plans, now, recentUse } = parts;
  const within = ({ plan, ownLimit }: Caller) => {
    return { hourlyLimit: limitOf(plans, { plan, ownLimit, isSuspended: false }), nowMs: now() };
  };
  return [
    {
      method: 'GET',
      path: `${PATH}/me`,
      operation: listOperation,
      async handle({ userId }) {
        const keys = await listKeys(sqlOf(userId), userId);
        return jsonReply(
          200,
          keys.map((key) => listedView(key, recentUse(key.keyId))),
        );
      },
    },
    {
      method: 'POST',
      path: PATH,
      operation: createOperation,
      async handle(caller, exchange) {
        const { userId } = caller;
        const { name, ...fields } = await readJson(exchange, NewKey);
        const limits = { ...NO_LIMITS, ...limitsIn(fields, within(caller)) };
        const sql = sqlOf(userId);
        await throttle.require(sql, [[keyCreationsOfUser, userId]]);
        const key = await createKeyWithinLimit(sql, { userId, name, limits });
        if (key === null) throw new Failure('conflict', `You have ${LIVE_KEYS_MAX} keys: delete one first`);
        return jsonReply(201, createdView(key));
      },
    },
    {
      method: 'PUT',
      path: `${PATH}/{uuid}`,
      operation: changeOperation,
      async handle(caller, exchange, { uuid }) {
        const { userId } = caller;
        const { name, ...fields } = await readJson(exchange, ChangedKey);
        const change = { ...(typeof name === 'string' ? { name } : {}), ...limitsIn(fields, within(caller)) };
        const sql = sqlOf(userId);
        await throttle.require(sql, [[keyChangesOfUser, userId]]);
        const keyId = z.guid().safeParse(uuid);
        const key = keyId.success ? await changeKey(sql, admission, { userId, keyId: keyId.data }, change) : null;
        if (key === null) throw new Failure('notFound', 'the key');
        return jsonReply(200, listedView(key, recentUse(key.keyId)));
      },
    },
    {
      method: 'DELETE',
      path: `${PATH}/{uuid}`,
      operation: revokeOperation,
      async handle({ userId }, _exchange, { uuid = '' }) {
        const sql = sqlOf(userId);
        await throttle.require(sql, [[keyEndsOfUser, userId]]);
        // What was sent may be a key that works: it isn't repeated.
        if ((await endKey(sql, admission, userId, uuid)) === null) throw new Failure('notFound', 'the key');
        return noContent;
      },
    },
  ];
}

/** With its value: the only time that it is shown. */
export function createdView({ keyId, name, value, creationDate, limits }: CreatedKey): KeyView {
  return { uuid: keyId, name, value, creationDate: wireTime(creationDate), lastUse: null, ...limitViews(limits) };
}

export function listedView(key: ListedKey, recent: Date | null): KeyView {
  const { keyId, name, masked, creationDate, lastUse, limits } = key;
  const latest = lastUse === null || (recent !== null && recent > lastUse) ? recent : lastUse;
  const view = { uuid: keyId, name, value: masked, creationDate: wireTime(creationDate) };
  return { ...view, lastUse: latest === null ? null : wireTime(latest), ...limitViews(limits) };
}

function perHour({ everyMs }: Rule): number {
  return 3_600_000 / everyMs;
}

const authErrors = ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'] as const;

const listOperation: Operation = {
  summary: 'Your live API keys, the newest first',
  tag: 'keys',
  who: 'user',
  responses: { 200: jsonAnswer('The keys.', z.array(KeyView)) },
  errors: authErrors,
};

const createOperation: Operation = {
  summary: 'Makes an API key, which works at once',
  description: `At most ${LIVE_KEYS_MAX} live keys for each user. ${keyCreationsOfUser.burst} creations may come at once, then ${perHour(keyCreationsOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  who: 'user',
  requestBody: jsonBody(NewKey),
  responses: { 201: jsonAnswer('The key with its whole value, which is not shown again.', NewKeyView) },
  errors: [
    ...authErrors,
    ...(['badRequest', 'crossSite', 'conflict', 'bodyTooLarge', 'uploadTooSlow', 'jsonExpected'] as const),
    'tooManyAttempts',
  ],
};

const changeOperation: Operation = {
  summary: 'Changes the name of one of your API keys, or what it may',
  description:
    'From the answer on every node admits it by what was changed. After a 503 that is not certain: send the same request again. A key whose time is over ' +
    `comes back with another \`expires\`. ${keyChangesOfUser.burst} requests may come at once, then ${perHour(keyChangesOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  who: 'user',
  parameters: [pathParameter('uuid', z.string().describe("The key's `uuid`."))],
  requestBody: jsonBody(ChangedKey),
  responses: { 200: jsonAnswer('The key as it is now.', KeyView) },
  errors: [
    ...authErrors,
    ...(['badRequest', 'crossSite', 'notFound', 'bodyTooLarge', 'uploadTooSlow', 'jsonExpected'] as const),
    'tooManyAttempts',
  ],
};

const revokeOperation: Operation = {
  summary: 'Ends one of your API keys for good: from the answer on every node refuses it',
  description:
    'After a 503 it is not certain that every node refuses it: send the same request again. Of several at the same time one gets ' +
    `the 204. ${keyEndsOfUser.burst} requests may come at once, then ${perHour(keyEndsOfUser)} an hour: a 429 with Retry-After says when.`,
  tag: 'keys',
  who: 'user',
  parameters: [
    pathParameter(
      'uuid',
      z.string().describe("The key's `uuid`, or its value with or without dashes; what is both is taken as a `uuid`."),
    ),
  ],
  responses: { 204: { description: 'Ended.' } },
  errors: [...authErrors, 'crossSite', 'notFound', 'tooManyAttempts'],
};
