// Who may tell us of events: Stripe, over exactly these bytes, now, and in the mode of our key.
import { WEBHOOK_SECRET } from '../fixtures/stripe.js';
import { billingTest, buy } from './nodes.js';
import { subscriber, updated } from './steps.js';

billingTest(
  'what is not signed by Stripe, over these bytes and now, is refused before anything is read',
  async (t, world) => {
    const node = await world.node();
    const { userId, subscription } = await subscriber(world, node, 'PRO');
    subscription.status = 'canceled';
    const { body } = updated(world, subscription);
    const { signature } = world.stripe;
    const nowSeconds = Math.floor(Date.now() / 1000);
    const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
    const replaced = body.replace('"object": "event"', '"object": "ev\ufffdnt"');
    const thin = JSON.stringify({ id: 'evt_test_1', object: 'v2.core.event', type: 'v1.billing.meter.no_meter_found' });
    const asked = world.stripe.requests.length;
    const refused: Record<string, { body: string | Buffer; signature?: string }> = {
      'no signature': { body },
      'an empty signature': { body, signature: '' },
      'no scheme that counts': { body, signature: `t=${nowSeconds},v0=${'0'.repeat(64)}` },
      'no time': { body, signature: signature(body).replace(/^t=\d+,/, '') },
      'another secret': { body, signature: signature(body, { secret: `${WEBHOOK_SECRET}x` }) },
      'another body': { body: body.replace('PRO', 'XXX').replace('canceled', 'active'), signature: signature(body) },
      're-serialised before the check': { body: JSON.stringify(JSON.parse(body)), signature: signature(body) },
      'one more byte': { body: `${body}\n`, signature: signature(body) },
      'a byte order mark before it': {
        body: Buffer.concat([byteOrderMark, Buffer.from(body)]),
        signature: signature(body),
      },
      'bytes that decode to the same text': { body: latin(replaced), signature: signature(replaced) },
      'signed in the future': { body, signature: signature(body, { timestamp: nowSeconds + 60 }) },
      'a time that is no number': { body, signature: signature(body, { timestamp: Number.NaN }) },
      'a number and more': { body, signature: signature(body).replace(/^t=\d+/, '$&x') },
      'two times': { body, signature: `t=${nowSeconds},${signature(body)}` },
      'older than 300 seconds': { body, signature: signature(body, { timestamp: nowSeconds - 302 }) },
      'another time than was signed': {
        body,
        signature: signature(body, { timestamp: nowSeconds - 1_000 }).replace(/^t=\d+/, `t=${nowSeconds}`),
      },
      'signed, but no event': { body: '{"id":1}', signature: signature('{"id":1}') },
      'signed, but not JSON': { body: 'hello', signature: signature('hello') },
      'signed, but empty': { body: '', signature: signature('') },
      'signed, but an event of the other kind': { body: thin, signature: signature(thin) },
    };
    for (const [what, sent] of Object.entries(refused)) {
      const headers: Record<string, string> = { 'Content-Type': 'application/json' };
      if (sent.signature !== undefined) headers['Stripe-Signature'] = sent.signature;
      const response = await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', body: sent.body, headers });
      t.match(
        [response.status, await response.json()],
        [400, { error: 'Bad request', message: what.startsWith('signed, but') ? /no event/ : /^Stripe-Signature: / }],
        what,
      );
    }
    const large = 'x'.repeat(300 * 1024);
    const headers = { 'Stripe-Signature': signature(large) };
    t.equal((await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', body: large, headers })).status, 413);
    t.equal(world.stripe.requests.length, asked, 'Stripe was not asked');
    t.equal(await world.planOf(userId), 'PRO');
    const fine = { body, headers: { 'Stripe-Signature': signature(body, { timestamp: nowSeconds - 290 }) } };
    t.equal((await fetch(`${node.url}/webhooks/stripe`, { method: 'POST', ...fine })).status, 200, 'the same, in time');
    t.equal(await world.planOf(userId), 'FREE');
  },
);

/** Its U+FFFD as a byte that is not UTF-8. */
function latin(text: string): Buffer {
  const [before = '', after = ''] = text.split('\ufffd');
  return Buffer.concat([Buffer.from(before), Buffer.from([0xff]), Buffer.from(after)]);
}

billingTest("an event of Stripe's other mode is refused, with either key", async (t, world) => {
  const node = await world.node();
  const { userId, subscription } = await subscriber(world, node, 'PRO');
  subscription.status = 'canceled';
  const object = world.stripe.account.subscriptionBody(subscription);
  const live = world.stripe.event('customer.subscription.deleted', object, { livemode: true });
  t.equal(await world.stripe.deliver(node.url, live), 400);
  t.equal(await world.planOf(userId), 'PRO');
  t.match(world.logLines.join(''), /other mode was refused/);
});

billingTest(
  'with a live key, what was bought in test mode is not there, and the other way round',
  async (t, world) => {
    const live = await world.node();
    const userId = await world.user();
    await world.sql`
      INSERT INTO billing_customers (user_id, livemode, customer_id, status, plan)
      VALUES (${userId}, false, 'cus_of_test_mode', 'active', 'PRO')`;
    t.match((await live.ask(userId, 'GET', 'me')).body, { plan: 'FREE', status: 'none' });
    const test = world.stripe.event(
      'customer.deleted',
      { id: 'cus_of_test_mode', object: 'customer' },
      { livemode: false },
    );
    t.equal(await world.stripe.deliver(live.url, test), 400);
    const stray = world.stripe.event('customer.deleted', { id: 'cus_of_test_mode', object: 'customer' });
    t.equal(await world.stripe.deliver(live.url, stray), 200, 'nobody of this mode is that customer');
    await buy(world, live, userId, 'BUSINESS');
    t.match((await live.ask(userId, 'POST', 'sync')).body, { plan: 'BUSINESS' });
    t.equal((await world.sql`SELECT livemode FROM billing_customers WHERE user_id = ${userId}`).length, 2);
  },
  { livemode: true, secretKey: 'sk_live_notToBeShown51H8gKxLkdIwHu7' },
);
