-- Answers to requests with an Idempotency-Key, and the requests that are under way with one: on any node the same key of an account is
-- answered once a day. The key itself is not kept.
CREATE TABLE kept_answers (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  key_hash bytea NOT NULL CHECK (length(key_hash) = 32),
  -- Which request has it. It is renewed while that is under way: one whose process has died is over with its lease.
  claim uuid NOT NULL,
  leased_until timestamptz NOT NULL,
  creation_date timestamptz NOT NULL DEFAULT now(),
  -- SHA-256 over what was sent; null, as all that follows: there is no answer yet.
  fingerprint bytea,
  status smallint,
  headers jsonb,
  body text,
  PRIMARY KEY (user_id, key_hash)
);

CREATE INDEX kept_answers_creation_date ON kept_answers (creation_date);
