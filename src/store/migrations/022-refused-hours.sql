-- Scans that were refused because the hour's quota was used up: what a user is shown beside what was used.
CREATE TABLE refused_hours (
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  -- Epoch seconds of the UTC clock hour.
  window_start bigint NOT NULL,
  refused bigint NOT NULL,
  PRIMARY KEY (user_id, window_start)
);

CREATE INDEX refused_hours_window ON refused_hours (window_start);
