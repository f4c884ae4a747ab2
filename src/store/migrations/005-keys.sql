-- Ending a key has two steps: Postgres says so, then the nodes are told. A key whose second step is missing can be ended again.
ALTER TABLE api_keys ADD COLUMN revocation_told boolean NOT NULL DEFAULT false;
UPDATE api_keys SET revocation_told = true WHERE revoked_at IS NOT NULL;

-- Live keys are listed and counted: what a user has ended in all these years mustn't make that slower.
CREATE INDEX api_keys_live ON api_keys (user_id, id) WHERE revoked_at IS NULL;
