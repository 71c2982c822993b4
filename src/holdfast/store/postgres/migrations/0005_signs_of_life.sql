-- A process behind a pooler has no session of its own to hold a lock in: it says now and then that it lives.

ALTER TABLE holdfast.owners ADD COLUMN seen_at bigint;  -- NULL: its lock tells; else the database's clock

-- Those at work: the server frees a lock with its connection, and a word is good for a minute.
CREATE FUNCTION holdfast.owners_alive() RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
  SELECT l.objid::bigint FROM pg_catalog.pg_locks l
  WHERE l.locktype = 'advisory' AND l.classid = 'holdfast.owners'::regclass::oid AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  UNION ALL
  SELECT id::bigint FROM holdfast.owners WHERE ended_at IS NULL AND seen_at > holdfast.now_ms() - 60000
$$;
