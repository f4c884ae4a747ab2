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
