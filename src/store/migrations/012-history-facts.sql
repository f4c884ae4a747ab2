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
