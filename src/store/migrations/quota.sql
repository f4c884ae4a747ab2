-- migration 002-quota
-- Units of each user's hours: a copy of what the ledger counts (mirrored), and what Postgres counted itself while the ledger was away.

CREATE TABLE quota_hours (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- Epoch seconds of the UTC clock hour.
  window_start bigint NOT NULL,
  mirrored integer NOT NULL DEFAULT 0,
  direct integer NOT NULL DEFAULT 0,
  PRIMARY KEY (user_id, window_start)
);

CREATE INDEX api_keys_revoked_at ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX quota_hours_window ON quota_hours (window_start);

-- migration 011-units-returned
-- Units that came back are counted beside those that were taken, no longer off them: each count only grows, so a copy that is newer is
-- the larger one in each, and a unit that came back is not taken again by an older copy.
ALTER TABLE quota_hours
  ADD COLUMN returned integer NOT NULL DEFAULT 0,
  ADD COLUMN direct_returned integer NOT NULL DEFAULT 0;

-- migration 022-refused-hours
-- Scans that were refused because the hour's quota was used up: what a user is shown beside what was used.
CREATE TABLE refused_hours (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- Epoch seconds of the UTC clock hour.
  window_start bigint NOT NULL,
  refused bigint NOT NULL,
  PRIMARY KEY (user_id, window_start)
);

CREATE INDEX refused_hours_window ON refused_hours (window_start);

-- migration 029-ledger-away
-- Who counts the units of an hour while processes share a Redis: Redis, or Postgres while one of them can't reach it. Never both.
CREATE TABLE ledger_away (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  -- Grows each time that Redis is left.
  generation bigint NOT NULL DEFAULT 0,
  -- When it was known to all who ask that Redis is left; null: not yet.
  since timestamptz,
  -- Redis is left until then, if nobody prolongs it; null: Redis counts, and no unit that Postgres counted is under way.
  until timestamptz
);
INSERT INTO ledger_away DEFAULT VALUES;

-- Whether Postgres may count, which stays so until the end of the transaction that asks: who gives the count back to Redis waits for it.
CREATE FUNCTION postgres_counts() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- A later end than anybody writes: the clock was set back.
  PERFORM FROM ledger_away WHERE since <= clock_timestamp() - interval '1.25 seconds'
    AND until > clock_timestamp() AND until <= clock_timestamp() + interval '2 seconds' FOR SHARE;
  RETURN FOUND;
END
$$;
