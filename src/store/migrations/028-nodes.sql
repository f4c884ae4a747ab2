-- Processes that share this database, as each says itself: a row goes when its process ends, or has not been heard of for long.
CREATE TABLE nodes (
  -- Of one process, made at its start.
  process_id uuid PRIMARY KEY,
  -- The data folder: processes of one machine share it.
  node_id uuid NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  version text NOT NULL,
  -- Null: it has none yet.
  engine text,
  signatures integer NOT NULL,
  -- Of the newest of them, in epoch seconds.
  signatures_built bigint,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);
