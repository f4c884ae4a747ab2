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
