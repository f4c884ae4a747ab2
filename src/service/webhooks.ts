// Webhooks, put together: the outbox, who sends it, and the routes.
import type { Config } from '../config/config.js';
import { createPosts } from '../download/dialling.js';
import type { History } from '../history/history.js';
import { scanView } from '../history/scan-view.js';
import { findScan, namesOfKeys } from '../history/stats.js';
import { type EventLog, seldom } from '../log.js';
import { serviceKey } from '../store/keys.js';
import type { Postgres } from '../store/postgres.js';
import { createDeliveries, createOutboxLook, type Delivery } from '../webhooks/deliveries.js';
import { areSealedOtherwise, createEndpoints } from '../webhooks/endpoints.js';
import { createWebhookRoutes } from '../webhooks/routes.js';
import { OUTBOX, Outbox } from '../webhooks/sender.js';
import { messageOf } from '../webhooks/wire.js';
import { diallingOf } from './scans.js';
import type { Add } from './starting.js';

export interface WebhookParts {
  readonly postgres: Postgres;
  readonly history: Pick<History, 'onTold'>;
  readonly version: string;
}

export async function openWebhooks(
  config: Config,
  log: EventLog,
  { postgres, history, version }: WebhookParts,
  add: Add,
) {
  const endpoints = createEndpoints(
    postgres.requests,
    await serviceKey(postgres.sql, 'webhooks', config.encryptionKey),
  );
  if (await areSealedOtherwise(postgres.requests, OUTBOX, endpoints)) {
    log.warn(
      'ENCRYPTION_KEY is another one than before: no webhook is sent until it is that again, or the webhook has a new secret',
    );
  }
  // As one account among others: however much waits, it has a part of the connections.
  const sql = postgres.requests(OUTBOX);
  const deliveries = createDeliveries(sql, postgres.requests);
  const posts = createPosts(diallingOf(config, version));
  const sender = add(
    new Outbox({
      deliveries,
      secrets: endpoints.secrets,
      posts,
      async bodyOf(userId, { scanId, event }: Delivery) {
        const scan = await findScan(sql, userId, scanId);
        if (scan === null) return null;
        const names = await namesOfKeys(sql, userId, [scan]);
        return messageOf(event, scan, scanView(scan, names));
      },
      onProblem: seldom((problem) => log.warn({ problem }, 'webhooks')),
      onSwitchedOff: (webhookId, userId) =>
        log.warn({ webhookId, userId }, 'a webhook was switched off: all attempts of three days have failed'),
    }),
  );
  const hurry = (): void => sender.hurry();
  history.onTold(hurry);
  return {
    ...createWebhookRoutes({ endpoints, deliveries, posts, hurry }),
    attempts: sender.counts,
    outbox: createOutboxLook(sql),
  };
}
