-- What was scanned: size in bytes (the limit is 10 MB) and SHA-256 of the content. Null: it never was there as a whole.
ALTER TABLE scans ADD COLUMN size_bytes integer, ADD COLUMN sha256 bytea;
