-- By what protocol a scan has come. Rows that are older than this column came by HTTP, or nobody knows.
ALTER TABLE scans ADD COLUMN protocol text NOT NULL DEFAULT 'http';

-- The few of the other protocols; nearly all rows may be HTTP's, and need no entry.
CREATE INDEX scans_protocol ON scans (user_id, protocol, id) WHERE protocol <> 'http';
