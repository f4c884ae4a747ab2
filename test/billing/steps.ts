// What the billing tests do again and again.
import type { Test } from 'tap';
import type { FakeEvent } from '../fixtures/stripe.js';
import type { FakeSubscription } from '../fixtures/stripe-account.js';
import { buy, type Node, PLANS, type World } from './nodes.js';

/** A subscriber whose plan has arrived. */
export async function subscriber(world: World, node: Node, plan: string) {
  const userId = await world.user();
  const subscription = await buy(world, node, userId, plan);
  await node.ask(userId, 'POST', 'sync');
  if ((await world.planOf(userId)) !== plan) throw new Error('The plan has not arrived');
  return { userId, subscription };
}

export function updated(
  { stripe }: World,
  subscription: FakeSubscription,
  type = 'customer.subscription.updated',
): FakeEvent {
  return stripe.event(type, stripe.account.subscriptionBody(subscription));
}

export async function expectPlan(t: Test, world: World, node: Node, userId: string, plan: string, what: string) {
  t.match((await node.ask(userId, 'GET', 'me')).body, { plan, hourlyLimit: PLANS.get(plan) ?? 0 }, what);
  t.equal(await world.planOf(userId), plan, what);
}
