-- migration 015-kept-answers
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

-- migration 018-pending-scans
-- Scans that were accepted and have not ended. The content is on the disk of the node that has accepted it. A row goes in the transaction that
-- brings its row of the history.
CREATE TABLE pending_scans (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  key_id uuid,
  node_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running')),
  filename text NOT NULL,
  -- Null, as the next one: a URL, whose content is not there yet.
  size_bytes integer,
  sha256 bytea,
  metadata text,
  -- As it was sent.
  url text,
  env text NOT NULL,
  -- The hour that its unit is of, in epoch seconds; and whether that was given back, which is said before it is done.
  window_start bigint NOT NULL,
  is_returned boolean NOT NULL DEFAULT false
);

CREATE INDEX pending_scans_user ON pending_scans (user_id);
CREATE INDEX pending_scans_node ON pending_scans (node_id);

-- Data folders whose processes live, as they say themselves.
CREATE TABLE pending_nodes (
  node_id uuid PRIMARY KEY,
  seen_at timestamptz NOT NULL DEFAULT now()
);

-- Keys of the service that all nodes share, made by the first one.
CREATE TABLE service_keys (
  purpose text PRIMARY KEY,
  key bytea NOT NULL CHECK (length(key) = 32)
);

-- migration 021-scan-policy
-- By what an accepted scan is read. At first as the service has it, which was the only way.
ALTER TABLE pending_scans
  ADD COLUMN encrypted text NOT NULL DEFAULT 'allow' CHECK (encrypted IN ('allow', 'reject')),
  ADD COLUMN heuristics text NOT NULL DEFAULT 'on' CHECK (heuristics IN ('on', 'off'));

-- migration 027-pending-list
-- The scans of a user that have not ended, the newest first: a page of the list.
CREATE INDEX pending_scans_list ON pending_scans (user_id, id);
DROP INDEX pending_scans_user;
