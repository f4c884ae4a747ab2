CREATE TABLE users (
  id uuid PRIMARY KEY,
  email text NOT NULL,
  name text,
  password_hash text,
  plan text NOT NULL,
  creation_date timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

-- The value of a key is known to its owner alone: what is kept is its SHA-256, and enough of it to recognise it by.
CREATE TABLE api_keys (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name text NOT NULL,
  hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
  first_characters char(4) NOT NULL,
  last_characters char(4) NOT NULL,
  creation_date timestamptz NOT NULL DEFAULT now(),
  last_use timestamptz,
  revoked_at timestamptz
);
CREATE INDEX api_keys_user ON api_keys (user_id) WHERE revoked_at IS NULL;
