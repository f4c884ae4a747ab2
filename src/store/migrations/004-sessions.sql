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
