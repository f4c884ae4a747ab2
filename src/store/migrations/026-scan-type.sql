-- What ClamAV says the content is. Rows that are older than this column don't know it.
ALTER TABLE scans ADD COLUMN detected_type text;
