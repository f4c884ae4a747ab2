// What a key may of what its account may, over the wire: changed on one node, it counts on the other with the next request.
import { z } from 'zod';
import { enoughOfTheHour } from '../fixtures/hour.js';
import { onNodes } from '../fixtures/nodes.js';
import { eicar } from '../fixtures/samples.js';
import { ask, bearer, post, signIn } from '../fixtures/sign-in.js';
import { until } from '../fixtures/until.js';

const Key = z.object({ uuid: z.string(), value: z.string() });
const Usage = z.object({ lastUse: z.string().nullable(), days: z.array(z.record(z.string(), z.unknown())) });
const invalid = { status: 401, body: { error: 'X-API-KEY INVALID' } };
const lacking = (scope: string) => ({
  status: 403,
  body: { error: 'Forbidden', message: `The key is not for this: it lacks the scope ${scope}` },
});

onNodes({}, async (t, { one, other }) => {
  const me = bearer((await signIn(one.url)).accessToken);
  const created = Key.parse((await post(`${one.url}/web/keys`, { name: 'bounded' }, me)).body);
  const scan = async (server = other, content = 'hello', id?: string) => {
    const headers = { 'X-API-KEY': created.value, 'X-Filename': 'a.txt', 'Content-Type': 'text/plain' };
    const once = id === undefined ? headers : { ...headers, 'Idempotency-Key': id };
    return await ask(`${server.url}/api/v1/scans`, { method: 'POST', headers: once, body: content });
  };
  const account = (server = other) => ask(`${server.url}/api/v1/account`, { headers: { 'X-API-KEY': created.value } });
  const change = async (fields: object) => {
    const headers = { ...me, 'Content-Type': 'application/json' };
    const init = { method: 'PUT', headers, body: JSON.stringify(fields) };
    const answer = await ask(`${one.url}/web/keys/${created.uuid}`, init);
    t.equal(answer.status, 200, JSON.stringify(answer.body));
  };

  t.test('its own limit, its scopes and its end count with the next request, on every node', async (t) => {
    await enoughOfTheHour(30_000);
    for (const server of [one, other]) t.equal((await scan(server)).status, 200);
    await change({ hourlyLimit: 2 });
    const first = await scan();
    t.match(
      [first.status, first.headers.get('x-ratelimit-limit'), first.headers.get('x-ratelimit-remaining')],
      [200, '2', '1'],
    );
    t.equal((await scan(one)).status, 200);
    const exhausted = await scan();
    t.match(exhausted, { status: 429, body: { error: 'Rate limit exceeded', limit: 2, retryAfter: Number } });
    t.match((await account()).body, { key: { hourlyLimit: 2, expires: null, scopes: ['scan', 'read'] } });
    await change({ hourlyLimit: null, scopes: ['read'] });
    t.match(await scan(), lacking('scan'));
    t.match(await scan(other, 'hello', 'an order'), lacking('scan'));
    t.equal((await account()).status, 200);
    await change({ scopes: ['scan'] });
    t.equal((await scan()).status, 200);
    t.match(await account(), lacking('read'));
    await change({ scopes: ['scan', 'read'], expires: new Date(Date.now() + 2_000).toISOString().slice(0, 19) });
    await until(async () => (await scan()).status === 401);
    for (const answer of [await scan(one), await scan(other), await account(one), await account(other)]) {
      t.match(answer, invalid);
    }
    t.match(await ask(`${other.url}/api/nothing`, { headers: { 'X-API-KEY': created.value } }), invalid);
    await change({ expires: null });
    t.equal((await scan()).status, 200);
  });

  t.test('its scans are counted by day', async (t) => {
    await scan(one, eicar().toString());
    await scan(one, '');
    const usage = async (path = `${created.uuid}/usage?days=2`) => ask(`${one.url}/web/keys/${path}`, { headers: me });
    const days = async () => Usage.parse((await usage()).body).days;
    // The day may have ended in between, and each node writes down its own scans.
    const sum = async (name: string) => (await days()).reduce((all, day) => all + Number(day[name]), 0);
    await until(async () => (await sum('clean')) >= 6 && (await sum('infected')) + (await sum('failed')) >= 2);
    t.strictSame([await sum('infected'), await sum('failed')], [1, 1]);
    for (const { day } of await days()) t.match(day, /^\d{4}-\d\d-\d\d$/);
    t.match((await usage()).body, { lastUse: String });
    t.equal(Usage.parse((await usage(`${created.uuid}/usage`)).body).days.length, 30);
    t.equal((await usage('00000000-0000-7000-8000-000000000000/usage')).status, 404);
    t.equal((await usage(`${created.uuid}/usage?days=0`)).status, 400);
  });
});
