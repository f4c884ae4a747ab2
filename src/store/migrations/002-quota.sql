-- Units of each user's hours: a copy of what the ledger counts (mirrored), and what Postgres counted itself while the ledger was away.

CREATE TABLE quota_hours (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- Epoch seconds of the UTC clock hour.
  window_start bigint NOT NULL,
  mirrored integer NOT NULL DEFAULT 0,
  direct integer NOT NULL DEFAULT 0,
  PRIMARY KEY (user_id, window_start)
);

CREATE INDEX api_keys_revoked_at ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX quota_hours_window ON quota_hours (window_start);
