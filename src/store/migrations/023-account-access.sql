-- Ways into an account beside its password: links that set another one, and a second factor.

CREATE TABLE password_resets (
  hash bytea PRIMARY KEY CHECK (length(hash) = 32),
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  expires_at timestamptz NOT NULL
);

CREATE INDEX password_resets_user ON password_resets (user_id);

ALTER TABLE users
  -- RFC 6238. Null: the account signs in with its password alone.
  ADD COLUMN totp_secret bytea,
  -- One that its owner has not confirmed yet.
  ADD COLUMN totp_pending bytea,
  -- The time step of the last code that was accepted: each is good once.
  ADD COLUMN totp_last_step bigint NOT NULL DEFAULT 0;

-- In the place of a code, each good once.
CREATE TABLE recovery_codes (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  hash bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (user_id, hash)
);
