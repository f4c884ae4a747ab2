// The routes of a user's own API keys.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, noContent, readJson } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, jsonBody, pathParameter } from '../http/schema.js';
import type { SqlOf } from '../store/postgres.js';
import { WireTime, wireTime } from '../wire-time.js';
import {
  type CreatedKey,
  createKeyWithinLimit,
  endKey,
  type KeyRevocation,
  LIVE_KEYS_MAX,
  type ListedKey,
  listKeys,
} from './keys.js';
import { keyCreationsOfUser, keyEndsOfUser, type Rule, type Throttle } from './throttle.js';
import { SomeNameField } from './users.js';

export interface KeyRouteParts {
  readonly sqlOf: SqlOf;
  readonly throttle: Throttle;
  readonly admission: KeyRevocation;
  /** A use that this node knows of and Postgres perhaps not yet. */
  readonly recentUse: (keyId: string) => Date | null;
}

/** A key on the wire. */
const KeyView = z.object({
  uuid: z.uuid(),
  name: z.string(),
  value: z.string().length(32).describe('Its first and last four characters, with stars between them'),
  creationDate: WireTime,
  lastUse: WireTime.nullable().describe('UTC, of the last scan that succeeded; null: none yet'),
});
export type KeyView = z.infer<typeof KeyView>;

/** The only time that the value is shown. */
const NewKeyView = KeyView.extend({
  value: KeyView.shape.value.describe('Send it as X-API-KEY: 32 hexadecimal characters'),
});

const PATH = '/web/keys';
const NewKey = z.strictObject({ name: SomeNameField });

export function createKeyRoutes({ sqlOf, throttle, admission, recentUse }: KeyRouteParts): CallerRoute[] {
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
      async handle({ userId }, exchange) {
        const { name } = await readJson(exchange, NewKey);
        const sql = sqlOf(userId);
        await throttle.require(sql, [[keyCreationsOfUser, userId]]);
        const key = await createKeyWithinLimit(sql, { userId, name });
        if (key === null) throw new Failure('conflict', `You have ${LIVE_KEYS_MAX} keys: delete one first`);
        return jsonReply(201, createdView(key));
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
export function createdView({ keyId, name, value, creationDate }: CreatedKey): KeyView {
  return { uuid: keyId, name, value, creationDate: wireTime(creationDate), lastUse: null };
}

export function listedView({ keyId, name, masked, creationDate, lastUse }: ListedKey, recent: Date | null): KeyView {
  const latest = lastUse === null || (recent !== null && recent > lastUse) ? recent : lastUse;
  const view = { uuid: keyId, name, value: masked, creationDate: wireTime(creationDate) };
  return { ...view, lastUse: latest === null ? null : wireTime(latest) };
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
