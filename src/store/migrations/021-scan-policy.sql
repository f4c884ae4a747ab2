-- By what an accepted scan is read. At first as the service has it, which was the only way.
ALTER TABLE pending_scans
  ADD COLUMN encrypted text NOT NULL DEFAULT 'allow' CHECK (encrypted IN ('allow', 'reject')),
  ADD COLUMN heuristics text NOT NULL DEFAULT 'on' CHECK (heuristics IN ('on', 'off'));
