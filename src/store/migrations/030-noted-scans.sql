-- Scans without a verdict, and those of a second and more, of all accounts: what operators are shown. Ordinary rows have no entry.
CREATE INDEX scans_failed ON scans (creation_date) WHERE status <> 200;
CREATE INDEX scans_slow ON scans (duration_ms, creation_date) WHERE duration_ms >= 1000;
