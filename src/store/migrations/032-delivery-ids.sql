-- Deliveries get ids of version 7, as everything else has (RFC 9562): the millisecond, then random bits. Bits 52 and 53 make it of a version 4.
CREATE FUNCTION time_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send((1000 * extract(epoch FROM clock_timestamp()))::bigint) FROM 3) FROM 1 FOR 6),
    52, 1), 53, 1), 'hex')::uuid
$$;
ALTER TABLE webhook_deliveries ALTER COLUMN id SET DEFAULT time_id();
