-- What a key may of what its account may. Null: as the account; at first every key may all of it.
ALTER TABLE api_keys
  ADD COLUMN expires timestamptz,
  ADD COLUMN own_limit integer CHECK (own_limit > 0),
  ADD COLUMN scopes text[] NOT NULL DEFAULT '{scan,read}' CHECK (scopes <@ '{scan,read}' AND scopes <> '{}'),
  -- When these were changed last: a ledger that was away then hears of it.
  ADD COLUMN rules_changed_at timestamptz;

CREATE INDEX api_keys_rules_changed_at ON api_keys (rules_changed_at) WHERE rules_changed_at IS NOT NULL;

-- Units of the hours of keys that have a limit of their own, as quota_hours has them of accounts.
CREATE TABLE key_hours (
  key_id uuid NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  user_id uuid NOT NULL,
  window_start bigint NOT NULL,
  mirrored integer NOT NULL DEFAULT 0,
  returned integer NOT NULL DEFAULT 0,
  direct integer NOT NULL DEFAULT 0,
  direct_returned integer NOT NULL DEFAULT 0,
  PRIMARY KEY (key_id, window_start)
);

CREATE INDEX key_hours_user ON key_hours (user_id, window_start);
CREATE INDEX key_hours_window ON key_hours (window_start);

-- Scans of each key, by day and what came of them.
CREATE TABLE key_days (
  user_id uuid NOT NULL,
  key_id uuid NOT NULL,
  day date NOT NULL,
  clean integer NOT NULL,
  infected integer NOT NULL,
  failed integer NOT NULL,
  PRIMARY KEY (user_id, key_id, day)
);
