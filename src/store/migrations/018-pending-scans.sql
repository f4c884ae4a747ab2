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
