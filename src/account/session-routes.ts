// The routes of a user's own sessions.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, noContent, readQuery } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, pathParameter, queryParameters, sentAs } from '../http/schema.js';
import type { Sql } from '../store/postgres.js';
import { endSession, endSessions, listSessions, SessionView } from './sessions.js';

const PATH = '/web/users/me/sessions';
const Id = z.uuid();
const EndAll = z.strictObject({
  keepCurrent: sentAs(
    z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true'),
    { type: 'boolean', default: false },
  )
    .default(false)
    .describe('true spares the session that asks'),
});

export function createSessionRoutes({ sql, now }: { readonly sql: Sql; readonly now: () => number }): CallerRoute[] {
  return [
    {
      method: 'GET',
      path: PATH,
      operation: listOperation,
      handle: async (caller) => jsonReply(200, await listSessions(sql, caller, now())),
    },
    {
      method: 'DELETE',
      path: `${PATH}/{sessionId}`,
      operation: endOperation,
      async handle({ userId }, _exchange, { sessionId }) {
        const id = Id.safeParse(sessionId);
        const ended = id.success && (await endSession(sql, userId, id.data));
        if (!ended) throw new Failure('notFound', 'the session');
        return noContent;
      },
    },
    {
      method: 'DELETE',
      path: PATH,
      operation: endAllOperation,
      async handle({ userId, sessionId }, exchange) {
        const { keepCurrent } = readQuery(exchange, EndAll);
        await endSessions(sql, userId, keepCurrent ? sessionId : null);
        return noContent;
      },
    },
  ];
}

const authErrors = ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'unavailable'] as const;

const listOperation: Operation = {
  summary: 'Your sessions, the one used last first',
  tag: 'users',
  who: 'user',
  responses: { 200: jsonAnswer('The sessions.', z.array(SessionView)) },
  errors: authErrors,
};

const endOperation: Operation = {
  summary: 'Ends one of your sessions: its tokens are refused from the next request on',
  tag: 'users',
  who: 'user',
  parameters: [pathParameter('sessionId', Id)],
  responses: { 204: { description: 'Ended.' } },
  errors: [...authErrors, 'crossSite', 'notFound'],
};

const endAllOperation: Operation = {
  summary: 'Ends all of your sessions',
  tag: 'users',
  who: 'user',
  parameters: queryParameters(EndAll),
  responses: { 204: { description: 'Ended.' } },
  errors: [...authErrors, 'crossSite', 'badRequest'],
};
