-- migration 001-accounts
-- Users and their API keys. Ids are made by the service (UUID version 7); a key's value is nowhere, only its SHA-256.

CREATE TABLE users (
  id uuid PRIMARY KEY,
  email text NOT NULL CHECK (email <> ''),
  name text NOT NULL,
  -- Null: the account can't sign in with a password.
  password_hash text,
  plan text NOT NULL,
  creation_date timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
  -- First and last four characters of the value: what the owner sees of it.
  prefix text NOT NULL CHECK (length(prefix) = 4),
  suffix text NOT NULL CHECK (length(suffix) = 4),
  creation_date timestamptz NOT NULL DEFAULT now(),
  last_use timestamptz,
  -- A revoked key keeps its row, so that its value can't come back.
  revoked_at timestamptz
);

CREATE INDEX api_keys_user ON api_keys (user_id);

-- migration 004-sessions
-- Signing in: sessions, their refresh tokens, the keys that sign access tokens, identities of a third-party issuer, and throttling.

-- One row per sign-in. Ending a session deletes it: what isn't here is not signed in, on any node.
CREATE TABLE sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  user_agent text NOT NULL,
  ip_address text NOT NULL,
  creation_date timestamptz NOT NULL,
  -- Within a minute: it is not written more often.
  last_use timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- A used token keeps its row until it expires, so that it is known when somebody shows it again.
CREATE TABLE refresh_tokens (
  hash bytea PRIMARY KEY CHECK (length(hash) = 32),
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);

CREATE INDEX refresh_tokens_session ON refresh_tokens (session_id, used_at);
CREATE INDEX refresh_tokens_expiry ON refresh_tokens (expires_at);

-- Ed25519. The newest one whose time has come signs; the id is the `kid` of its tokens.
CREATE TABLE signing_keys (
  id uuid PRIMARY KEY,
  public_key bytea NOT NULL,
  private_key bytea NOT NULL,
  signs_from timestamptz NOT NULL
);

-- Who an issuer's `sub` is here. It stays what it was at first sight, whatever becomes of the e-mail address.
CREATE TABLE identities (
  issuer text NOT NULL,
  subject text NOT NULL,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  creation_date timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (issuer, subject)
);

CREATE INDEX identities_user ON identities (user_id);

-- Throttling of sign-ins and registrations: the bucket is a hash of what is counted, `full_until` is when it is empty again.
CREATE TABLE sign_in_attempts (
  bucket bytea PRIMARY KEY CHECK (length(bucket) = 32),
  full_until timestamptz NOT NULL
);

CREATE INDEX sign_in_attempts_full_until ON sign_in_attempts (full_until);

-- Whether somebody else than the account's owner said that the address is his: the operator, or a trusted issuer. Only then an
-- issuer's word about the address opens the account; otherwise whoever registers a stranger's address would get the stranger's scans.
ALTER TABLE users ADD COLUMN email_vouched boolean NOT NULL DEFAULT true;

CREATE FUNCTION forget_vouched_email() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.email_vouched := false;
  RETURN NEW;
END $$;

CREATE TRIGGER users_email_changed BEFORE UPDATE OF email ON users
  FOR EACH ROW WHEN (lower(NEW.email) <> lower(OLD.email)) EXECUTE FUNCTION forget_vouched_email();

-- migration 005-keys
-- Ending a key has two steps: Postgres says so, then the nodes are told. A key whose second step is missing can be ended again.
ALTER TABLE api_keys ADD COLUMN revocation_told boolean NOT NULL DEFAULT false;
UPDATE api_keys SET revocation_told = true WHERE revoked_at IS NOT NULL;

-- Live keys are listed and counted: what a user has ended in all these years mustn't make that slower.
CREATE INDEX api_keys_live ON api_keys (user_id, id) WHERE revoked_at IS NULL;

-- migration 008-untold-keys
-- Keys that have ended and of which it isn't certain that every node knows: few, and looked for every minute.
CREATE INDEX api_keys_untold ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL AND NOT revocation_told;

-- migration 020-key-rules
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

-- migration 023-account-access
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

-- migration 034-refresh-again
-- Of a used token: the SHA-256 of the Idempotency-Key that it was used with, and what its successor was made with. The same request again has the
-- same successor. Both null: it had no such key.
ALTER TABLE refresh_tokens
  ADD COLUMN again_hash bytea CHECK (length(again_hash) = 32),
  ADD COLUMN salt bytea CHECK (length(salt) = 32);
