-- The scans of a user that have not ended, the newest first: a page of the list.
CREATE INDEX pending_scans_list ON pending_scans (user_id, id);
DROP INDEX pending_scans_user;
