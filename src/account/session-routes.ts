// The routes of a user's own sessions.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, noContent, readQuery } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import type { Sql } from '../store/postgres.js';
import { endSession, endSessions, listSessions } from './sessions.js';

const PATH = '/web/users/me/sessions';
const Id = z.uuid();
const EndAll = z.object({
  keepCurrent: z
    .enum(['true', 'false'], 'must be true or false')
    .default('false')
    .transform((value) => value === 'true'),
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

const sessionSchema = {
  type: 'object',
  required: ['id', 'userAgent', 'ipAddress', 'creationDate', 'lastUse', 'current'],
  properties: {
    id: { type: 'string', format: 'uuid' },
    userAgent: { type: 'string' },
    ipAddress: { type: 'string' },
    creationDate: { type: 'string', description: 'YYYY-MM-DDThh:mm:ss, UTC' },
    lastUse: { type: 'string', description: 'The same; to the minute' },
    current: { type: 'boolean', description: 'Whether this request belongs to it' },
  },
};

const listOperation: Operation = {
  summary: 'Your sessions, the one used last first',
  tag: 'users',
  who: 'user',
  responses: {
    200: {
      description: 'The sessions.',
      content: { 'application/json': { schema: { type: 'array', items: sessionSchema } } },
    },
  },
  errors: authErrors,
};

const endOperation: Operation = {
  summary: 'Ends one of your sessions: its tokens are refused from the next request on',
  tag: 'users',
  who: 'user',
  parameters: [{ name: 'sessionId', in: 'path', required: true, schema: { type: 'string', format: 'uuid' } }],
  responses: { 204: { description: 'Ended.' } },
  errors: [...authErrors, 'crossSite', 'notFound'],
};

const endAllOperation: Operation = {
  summary: 'Ends all of your sessions',
  tag: 'users',
  who: 'user',
  parameters: [
    {
      name: 'keepCurrent',
      in: 'query',
      description: 'true spares the session that asks',
      schema: { type: 'boolean', default: false },
    },
  ],
  responses: { 204: { description: 'Ended.' } },
  errors: [...authErrors, 'crossSite', 'badRequest'],
};
