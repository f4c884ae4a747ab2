-- History: one row per scan, in a partition per month, and counts per user and day that are kept with the rows.

-- An id is a UUID version 7: its first 48 bits are the milliseconds of its creation. The creation date is derived from it, so a
-- row that comes again meets itself in the same partition, and the order of ids is the order of time.
CREATE FUNCTION scan_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN timestamptz '1970-01-01 00:00:00+00'
  + ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint * interval '1 millisecond';

CREATE TABLE scans (
  id uuid NOT NULL,
  user_id uuid NOT NULL,
  creation_date timestamptz NOT NULL CHECK (creation_date = scan_time(id)),
  last_update timestamptz NOT NULL,
  -- Compared byte by byte: the same order on every machine, and a prefix is a range of the index.
  filename text COLLATE "C" NOT NULL,
  duration_ms integer NOT NULL,
  infected boolean NOT NULL,
  virus_name text COLLATE "C",
  env text NOT NULL,
  status smallint NOT NULL,
  error text,
  PRIMARY KEY (user_id, id, creation_date) INCLUDE (infected, status),
  CHECK (infected = (virus_name IS NOT NULL))
) PARTITION BY RANGE (creation_date);

-- One for each order of the history, each with what filters look at: a page is found in the index alone. The order by
-- creation date is that of the primary key.
CREATE INDEX scans_last_update ON scans (user_id, last_update, id) INCLUDE (creation_date, infected, status);
CREATE INDEX scans_filename ON scans (user_id, filename, id) INCLUDE (creation_date, infected, status);
CREATE INDEX scans_duration ON scans (user_id, duration_ms, id) INCLUDE (creation_date, infected, status);
CREATE INDEX scans_infected ON scans (user_id, infected, id) INCLUDE (creation_date, status);
CREATE INDEX scans_virus_name ON scans (user_id, virus_name, id) INCLUDE (creation_date, infected, status);
CREATE INDEX scans_status ON scans (user_id, status, id) INCLUDE (creation_date, infected);

-- How many rows of a user and a UTC day have which status and verdict: changed with the rows, in their transaction.
CREATE TABLE scan_days (
  user_id uuid NOT NULL,
  day date NOT NULL,
  status smallint NOT NULL,
  infected boolean NOT NULL,
  scans bigint NOT NULL,
  PRIMARY KEY (user_id, day, status, infected)
) WITH (fillfactor = 50);

-- Makes the partition of the month that begins with that day; whoever and however many call.
CREATE FUNCTION make_scan_partition(month date) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  partition text := 'scans_' || to_char(month, 'YYYYMM');
BEGIN
  IF to_regclass(partition) IS NOT NULL THEN RETURN; END IF;
  PERFORM pg_advisory_xact_lock(5749281603);
  -- What was found missing before the lock is remembered as missing: only the statement itself looks again.
  EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF scans FOR VALUES FROM (%L) TO (%L)', partition,
    to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00',
    to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
END $$;

-- Drops the partitions of the months before that day, the first of a month, with their counts. Returns how many.
CREATE FUNCTION drop_scan_partitions(oldest date) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  partition text;
  dropped integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(5749281603);
  FOR partition IN
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'scans'::regclass AND c.relname < 'scans_' || to_char(oldest, 'YYYYMM')
  LOOP
    EXECUTE format('DROP TABLE %I', partition);
    dropped := dropped + 1;
  END LOOP;
  IF dropped > 0 THEN DELETE FROM scan_days WHERE day < oldest; END IF;
  RETURN dropped;
END $$;
