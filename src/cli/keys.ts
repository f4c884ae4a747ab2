// `sluice key`: API keys made, listed and ended by the operator.
import { SomeNameField } from '../account/fields.js';
import { createdView, listedView } from '../account/key-routes.js';
import { createKeyWithinLimit, LIVE_KEYS_MAX, listKeys } from '../account/keys.js';
import { endKey } from '../account/revocation.js';
import type { Config } from '../config/types.js';
import { Failure } from '../errors.js';
import { escapeText, safeJson } from './escape.js';
import { NODES_ASK_SECONDS, withNodes } from './nodes.js';
import { Refusal, withStore } from './store.js';
import { table } from './table.js';
import { checked, type Output, print, userOf } from './users.js';

export async function createUserKey(
  config: Config,
  options: Output & { readonly email: string; readonly name: string },
): Promise<void> {
  const name = checked('--name', SomeNameField, options.name);
  const key = await withStore(config, async (sql) => {
    const user = await userOf(sql, options.email);
    return await createKeyWithinLimit(sql, { userId: user.id, name });
  });
  if (key === null) throw new Refusal(`${escapeText(options.email)} has ${LIVE_KEYS_MAX} keys: revoke one first`);
  if (options.json) return print(`${safeJson(createdView(key))}\n`);
  print(`The key, which is not shown again: ${key.value}\nIts uuid: ${key.keyId}\n`);
}

export async function showKeys(config: Config, options: Output & { readonly email: string }): Promise<void> {
  const keys = await withStore(config, async (sql) => await listKeys(sql, (await userOf(sql, options.email)).id));
  const views = keys.map((key) => listedView(key, null));
  if (options.json) return print(`${safeJson(views)}\n`);
  const rows = views.map(({ uuid, name, value, creationDate, lastUse }) => [
    ...[uuid, name, value, creationDate],
    lastUse ?? 'never',
  ]);
  print(table(['UUID', 'NAME', 'VALUE', 'CREATED (UTC)', 'LAST USE (UTC)'], rows));
}

export async function revokeUserKey(config: Config, options: Output & { readonly key: string }): Promise<void> {
  const { ended, areTold } = await withStore(config, (sql) =>
    withNodes(config, async (nodes) => ({
      ended: await endKey(sql, nodes, null, options.key).catch(explain),
      areTold: nodes.areTold,
    })),
  );
  // It may have been given by its value, which must not be printed here.
  if (ended === null) throw new Refusal('There is no such live key; `sluice key list EMAIL` shows those there are');
  if (options.json) return print(`${safeJson({ uuid: ended.keyId, name: ended.name, userId: ended.userId })}\n`);
  const asks = config.databaseUrl !== null && !areTold;
  const when = asks ? `; a running server refuses it within ${NODES_ASK_SECONDS} seconds` : '';
  print(`The key ${ended.keyId} (${escapeText(ended.name)}) is revoked${when}.\n`);
}

function explain(error: unknown): never {
  if (!(error instanceof Failure)) throw error;
  throw new Refusal(`${error.message}. Not every server refuses the key yet: run the same command again`);
}
