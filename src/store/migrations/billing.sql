-- migration 003-billing
-- Billing: who is which customer at Stripe, what Stripe said last, checkouts in progress, events seen. No secret and no card is here.

-- A user has one customer in Stripe's live mode and one in its test mode, which know nothing of each other.
CREATE TABLE billing_customers (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  livemode boolean NOT NULL,
  -- Null until Stripe has made it, and again after it was deleted there.
  customer_id text UNIQUE,
  -- Part of the idempotency key: one key makes one customer, however often its creation is tried.
  generation integer NOT NULL DEFAULT 1,
  -- What the creation says, kept until it is done: a retry has to say the same.
  email text,
  -- Readings of Stripe are numbered when they begin; one that began before the last one applied is dropped.
  reads_begun integer NOT NULL DEFAULT 0,
  read_applied integer NOT NULL DEFAULT 0,
  subscription_id text,
  -- Stripe's word for it; null: there was no subscription yet.
  status text,
  refunded boolean NOT NULL DEFAULT false,
  current_period_end timestamptz,
  cancel_at_period_end boolean NOT NULL DEFAULT false,
  -- The plan that billing gave last; null: none yet, and users.plan is somebody else's decision.
  plan text,
  -- Whether the admission has been told of the user's plan.
  announced boolean NOT NULL DEFAULT true,
  PRIMARY KEY (user_id, livemode)
);

CREATE INDEX billing_customers_unannounced ON billing_customers (user_id) WHERE NOT announced;

-- One attempt to buy. Everything that its creation at Stripe says is here, so that every retry says the same.
CREATE TABLE billing_checkouts (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  livemode boolean NOT NULL,
  customer_id text NOT NULL,
  plan text NOT NULL,
  price_id text NOT NULL,
  return_base text NOT NULL,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Null until Stripe's answer has arrived.
  session_id text UNIQUE,
  closed_at timestamptz
);

-- Two open checkouts could both be paid.
CREATE UNIQUE INDEX billing_checkouts_open ON billing_checkouts (user_id, livemode) WHERE closed_at IS NULL;

-- Events whose effect is in the tables above: written in the same transaction.
CREATE TABLE billing_events (
  id text PRIMARY KEY,
  type text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX billing_events_applied ON billing_events (applied_at);

-- Who reconciles, until when, and when it was done last: one process at a time, without a connection held for it.
CREATE TABLE billing_reconciles (
  livemode boolean PRIMARY KEY,
  holder uuid,
  held_until timestamptz,
  finished_at timestamptz
);
