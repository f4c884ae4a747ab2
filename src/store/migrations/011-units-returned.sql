-- Units that came back are counted beside those that were taken, no longer off them: each count only grows, so a copy that is newer is
-- the larger one in each, and a unit that came back is not taken again by an older copy.
ALTER TABLE quota_hours
  ADD COLUMN returned integer NOT NULL DEFAULT 0,
  ADD COLUMN direct_returned integer NOT NULL DEFAULT 0;
