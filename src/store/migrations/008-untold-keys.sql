-- Keys that have ended and of which it isn't certain that every node knows: few, and looked for every minute.
CREATE INDEX api_keys_untold ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL AND NOT revocation_told;
