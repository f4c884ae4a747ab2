-- migration 019-webhooks
-- Where accounts want to hear of their scans, and what is to be said there.
CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  url text NOT NULL,
  events text[] NOT NULL,
  -- Sealed. The former one signs as well for a while, so that receivers can change.
  secret bytea NOT NULL,
  former_secret bytea,
  former_until timestamptz,
  is_enabled boolean NOT NULL DEFAULT true,
  -- Why it was switched off by the service.
  notice text,
  -- Since the first of the attempts that failed in a row; how many; and until when it is left in peace.
  failing_since timestamptz,
  failures integer NOT NULL DEFAULT 0,
  rests_until timestamptz NOT NULL DEFAULT '-infinity',
  -- One process at a time sends what waits for it.
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  creation_date timestamptz NOT NULL DEFAULT now(),
  last_update timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX webhooks_user ON webhooks (user_id);

-- Written with the rows of the history. It refers to no webhook: recording a scan must wait for nobody who changes one.
CREATE TABLE webhook_deliveries (
  -- Their order.
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  webhook_id uuid NOT NULL,
  user_id uuid NOT NULL,
  scan_id uuid NOT NULL,
  event text NOT NULL,
  state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
  attempts smallint NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT now(),
  -- Of the last attempt: the receiver's answer, or why there is none.
  status smallint,
  error text,
  creation_date timestamptz NOT NULL DEFAULT now(),
  last_update timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at, number) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_order ON webhook_deliveries (webhook_id, scan_id, number) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_list ON webhook_deliveries (webhook_id, number);
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (last_update) WHERE state <> 'waiting';

-- migration 032-delivery-ids
-- Deliveries get ids of version 7, as everything else has (RFC 9562): the millisecond, then random bits. Bits 52 and 53 make it of a version 4.
CREATE FUNCTION time_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((1000 * extract(epoch FROM clock_timestamp()))::bigint) FROM 3) FROM 1 FOR 6),
    52, 1), 53, 1), 'hex')::uuid
$$;
ALTER TABLE webhook_deliveries ALTER COLUMN id SET DEFAULT time_id();

-- migration 033-deliveries-of-scan
-- What waits before a delivery is looked for by its scan, among few rows. Indexes of what waits alone misled the planner: it takes them for empty, or
-- for small, until the table is analyzed again, and read all of one for each of the rows.
CREATE INDEX webhook_deliveries_scan ON webhook_deliveries (scan_id);
DROP INDEX webhook_deliveries_order;
