-- migration 006-history
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

-- migration 007-scan-engine
-- What has looked at a content, such as clamav/1.4.6 or, where YARA rules stood in for it, yara-x/1.7.1: a weaker verdict must be
-- known for one as long as it is kept. Null: nothing has looked at all of it, or the row is older than this column.
ALTER TABLE scans ADD COLUMN engine text;

-- migration 009-scan-content
-- What was scanned: size in bytes (the limit is 10 MB) and SHA-256 of the content. Null: it never was there as a whole.
ALTER TABLE scans ADD COLUMN size_bytes integer, ADD COLUMN sha256 bytea;

-- migration 010-scan-time
-- The same times by operators that don't depend on the session's time zone. `timestamptz + interval` does: Postgres could not put the
-- function's text in the place of its call, and ran a statement of its own for each. That took 5 us, twice for every row; it takes 1 now.
CREATE OR REPLACE FUNCTION scan_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (timestamp '1970-01-01 00:00:00'
  + ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint * interval '1 millisecond') AT TIME ZONE 'UTC';

-- migration 012-history-facts
-- What was said beside the verdict (`encrypted` and the like), in the order in which it was said; and with which key the scan was asked
-- for. Null: without one, or the row is older than this column.
ALTER TABLE scans ADD COLUMN notices text[] NOT NULL DEFAULT '{}', ADD COLUMN key_id uuid;

-- The newest day, and days that are dropped.
CREATE INDEX scan_days_day ON scan_days (day);

-- The month that is dropped next, and since when that is known: never before a day has gone by. One row, or none.
CREATE TABLE scan_retention (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  month date NOT NULL,
  announced_at timestamptz NOT NULL
);

-- It dropped all months before a day, on the word of whoever called it.
DROP FUNCTION drop_scan_partitions(date);

-- Drops the oldest month with its counts when all of it is beyond the retention by the caller's clock, by this database's and by the
-- newest row's, and when that was announced a day ago. Returns the month that was dropped, and the one that is announced.
CREATE FUNCTION retire_scan_month(clock timestamptz, retention_days integer, OUT dropped date, OUT announced date)
LANGUAGE plpgsql SET lock_timeout = '5s' AS $$
DECLARE
  latest timestamptz;
  oldest date;
  next_month date;
  known scan_retention;
BEGIN
  PERFORM pg_advisory_xact_lock(5749281603);
  -- Null, as long as there are no rows, is left out of `least`.
  latest := least(clock, now(), (SELECT (max(day) + 1)::timestamp AT TIME ZONE 'UTC' FROM scan_days));
  oldest := date_trunc('month', (latest AT TIME ZONE 'UTC') - retention_days * interval '1 day');
  next_month := oldest_scan_month(oldest);
  SELECT * INTO known FROM scan_retention;
  IF next_month IS NOT NULL AND known.month = next_month AND now() >= known.announced_at + interval '1 day' THEN
    EXECUTE format('DROP TABLE %I', 'scans_' || to_char(next_month, 'YYYYMM'));
    DELETE FROM scan_days WHERE day >= next_month AND day < next_month + interval '1 month';
    dropped := next_month;
    next_month := oldest_scan_month(oldest);
  END IF;
  IF next_month IS NULL THEN
    DELETE FROM scan_retention;
  -- One that was announced by a clock that was ahead is announced again.
  ELSIF known.month IS DISTINCT FROM next_month OR known.announced_at > now() THEN
    INSERT INTO scan_retention (month, announced_at) VALUES (next_month, now())
    ON CONFLICT (only_row) DO UPDATE SET month = excluded.month, announced_at = excluded.announced_at;
    announced := next_month;
  END IF;
END $$;

-- The first day of the oldest month that has a partition and is before that day; null: there is none.
CREATE FUNCTION oldest_scan_month(before date) RETURNS date
LANGUAGE sql STABLE AS $$
  SELECT min(to_date(right(c.relname, 6), 'YYYYMM'))
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'scans'::regclass AND to_date(right(c.relname, 6), 'YYYYMM') < before
$$;

-- migration 014-scan-origins
-- What the client has said of a scan, the URL that it was of, and the version of the signatures that have looked. Null: nothing was said; it
-- was an upload; nothing has looked at all of it. Also of all rows that are older than these columns.
ALTER TABLE scans ADD COLUMN metadata text, ADD COLUMN url text, ADD COLUMN signatures text;

-- The newest scan of a content.
CREATE INDEX scans_sha256 ON scans (user_id, sha256, id);

-- migration 025-scan-protocol
-- By what protocol a scan has come. Rows that are older than this column came by HTTP, or nobody knows.
ALTER TABLE scans ADD COLUMN protocol text NOT NULL DEFAULT 'http';

-- The few of the other protocols; nearly all rows may be HTTP's, and need no entry.
CREATE INDEX scans_protocol ON scans (user_id, protocol, id) WHERE protocol <> 'http';

-- migration 026-scan-type
-- What ClamAV says the content is. Rows that are older than this column don't know it.
ALTER TABLE scans ADD COLUMN detected_type text;

-- migration 030-noted-scans
-- Scans without a verdict, and those of a second and more, of all accounts: what operators are shown. Ordinary rows have no entry.
CREATE INDEX scans_failed ON scans (creation_date) WHERE status <> 200;
CREATE INDEX scans_slow ON scans (duration_ms, creation_date) WHERE duration_ms >= 1000;

-- migration 031-fewer-indexes
-- Nearly all scans are clean and have the status 200: in those orders they are in the order of the primary key, and only the others need an
-- index. Of a digest six bytes find the same rows in an index that is a third smaller.
DROP INDEX scans_infected, scans_virus_name, scans_status, scans_sha256;
CREATE INDEX scans_infected ON scans (user_id, id) INCLUDE (creation_date, status) WHERE infected;
CREATE INDEX scans_virus_name ON scans (user_id, virus_name, id) INCLUDE (creation_date, status) WHERE infected;
CREATE INDEX scans_status ON scans (user_id, status, id) INCLUDE (creation_date, infected) WHERE status <> 200;
CREATE INDEX scans_sha256 ON scans (user_id, substring(sha256 FROM 1 FOR 6), id);
