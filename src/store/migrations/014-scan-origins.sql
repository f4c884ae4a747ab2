-- What the client has said of a scan, the URL that it was of, and the version of the signatures that have looked. Null: nothing was said; it
-- was an upload; nothing has looked at all of it. Also of all rows that are older than these columns.
ALTER TABLE scans ADD COLUMN metadata text, ADD COLUMN url text, ADD COLUMN signatures text;

-- The newest scan of a content.
CREATE INDEX scans_sha256 ON scans (user_id, sha256, id);
