-- A thin door: a publish costs as little as can be in somebody else's transaction.

-- Every statement reads the constraints of its table anew from their text. Rows come in only through the door's functions
-- and the statement for plain events, and neither can write what these refused; the invariants of the test suite look for
-- it.
DO $$
DECLARE
  v_name name;
BEGIN
  FOR v_name IN SELECT conname FROM pg_catalog.pg_constraint WHERE conrelid = 'holdfast.events'::regclass AND contype = 'c'
  LOOP
    EXECUTE 'ALTER TABLE holdfast.events DROP CONSTRAINT ' || quote_ident(v_name);
  END LOOP;
END $$;

-- Both run for whoever may call `publish`, with the rights of its owner: names mean what they meant here.
ALTER FUNCTION holdfast.is_json_guarded SET search_path = pg_catalog, pg_temp;
CREATE FUNCTION holdfast.accept_for_all(
  p_id text, p_type text, p_payload text, p_source text, p_stream text, p_timestamp text, p_properties text,
  p_key text, p_to text, p_not_before bigint, p_accepted_at bigint, p_digest text
) RETURNS holdfast.published LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN holdfast.accept(p_id, p_type, p_payload, p_source, p_stream, p_timestamp, p_properties,
                         p_key, p_to, p_not_before, p_accepted_at, p_digest, true);
END $$;

-- From PostgreSQL 18 on the plan of a function in SQL is kept for the session: one statement then does what took four,
-- and with its names bound here it needs no search_path of its own. Before 18 it would be planned in every call: there
-- the function of 0007 stays. What is longer than 2000 characters may be nested deeper than the server's stack allows.
DO $$
BEGIN
  IF current_setting('server_version_num')::integer < 180000 THEN
    RETURN;
  END IF;
  EXECUTE $sql$
    CREATE OR REPLACE FUNCTION holdfast.publish(
      type text, payload text DEFAULT NULL, source text DEFAULT NULL, stream text DEFAULT NULL,
      "timestamp" text DEFAULT NULL, properties text DEFAULT NULL, dedup_key text DEFAULT NULL, "to" text DEFAULT NULL,
      not_before bigint DEFAULT NULL, id text DEFAULT NULL, accepted_at bigint DEFAULT NULL, digest text DEFAULT NULL
    ) RETURNS holdfast.published LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC
      WITH added AS (  -- where `accept` would have nothing to look for
        INSERT INTO holdfast.events (id, source, type, timestamp, accepted_at, payload)
        SELECT 'evt_' || replace(uuidv7()::text, '-', ''), coalesce($3, 'app'), $1,
               coalesce($5, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
               coalesce($11, holdfast.now_ms()), coalesce($2, 'null')
        WHERE length($1) BETWEEN 1 AND 255
          AND $4 IS NULL AND $7 IS NULL AND $8 IS NULL AND $9 IS NULL AND $10 IS NULL AND coalesce($6, '{}') = '{}'
          AND ($2 IS NULL OR CASE WHEN length($2) < 2000 THEN $2 IS JSON ELSE holdfast.is_json_guarded($2) END)
        RETURNING n, id
      ), waiting AS (
        INSERT INTO holdfast.unrouted AS w (event) SELECT n FROM added
        RETURNING CASE WHEN (SELECT u.event FROM holdfast.unrouted u
                             WHERE u.event < w.event AND u.event >= w.event - 200 ORDER BY u.event DESC LIMIT 1) IS NULL
                  THEN pg_notify('holdfast_events', '') END
      )
      SELECT coalesce(
        (SELECT ROW(added.id, added.id, 1, false)::holdfast.published FROM added),
        holdfast.accept_for_all($10, $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12));
    END $sql$;
END $$;
