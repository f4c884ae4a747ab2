-- migration 013-operators
-- Operators: who is one, what they may set on an account, what they did, and accounts that are gone with all they had.

ALTER TABLE users
  ADD COLUMN role text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'operator')),
  -- Scans per hour in place of the plan's; null: the plan decides.
  ADD COLUMN own_limit integer CHECK (own_limit > 0),
  -- Null: the account may sign in and scan.
  ADD COLUMN suspended_at timestamptz;

-- What was done, by whom, to whom. Names stay as they were: an account that is gone has no other.
CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  -- Null: the command line.
  actor_id uuid,
  actor text NOT NULL,
  -- Null: the machine itself.
  address text,
  action text NOT NULL,
  target_id uuid,
  target text,
  detail jsonb NOT NULL DEFAULT '{}'
);

CREATE INDEX audit_log_at ON audit_log (at);
CREATE INDEX audit_log_target ON audit_log (target_id, id);

-- A row is never changed. It goes when it is a year old, and not before.
CREATE FUNCTION keep_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.at < now() - interval '1 year' THEN RETURN OLD; END IF;
  RAISE EXCEPTION 'the audit log is only added to';
END $$;

CREATE TRIGGER audit_log_rows BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION keep_audit_log();
CREATE TRIGGER audit_log_table BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log();

-- Whose scans are removed; kept for some time, since a journal may bring rows later.
CREATE TABLE deleted_users (
  id uuid PRIMARY KEY,
  deleted_at timestamptz NOT NULL DEFAULT now()
);

-- migration 028-nodes
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
