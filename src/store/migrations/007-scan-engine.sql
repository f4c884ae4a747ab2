-- What has looked at a content, such as clamav/1.4.6 or, where YARA rules stood in for it, yara-x/1.7.1: a weaker verdict must be
-- known for one as long as it is kept. Null: nothing has looked at all of it, or the row is older than this column.
ALTER TABLE scans ADD COLUMN engine text;
