-- One call, one plan: the door's functions answer with one value, not with a table of one row, so that each calls the next
-- as an expression; and the JSON of a whole batch is read in one go.

CREATE TYPE holdfast.published AS (id text, stream text, seq bigint, duplicate boolean);

-- Whether the last few hundred events left nothing waiting. By the index in every plan: asked only whether there is one,
-- the planner begins at the table's start, and each publish then costs as much as there is to route.
CREATE FUNCTION holdfast.is_quiet(p_n bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_before bigint;
BEGIN
  SELECT event INTO v_before FROM holdfast.unrouted WHERE event < p_n AND event >= p_n - 200
  ORDER BY event DESC LIMIT 1;
  RETURN v_before IS NULL;
END $$;

CREATE OR REPLACE FUNCTION holdfast.ring(p_n bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF holdfast.is_quiet(p_n) THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
END $$;

-- Whether a text is JSON, where the server knows that by itself. What is long may be nested deeper than its stack allows,
-- which only a guarded block survives; and each such block is a small transaction.
ALTER FUNCTION holdfast.is_json RENAME TO is_json_guarded;
DO $$
BEGIN
  IF current_setting('server_version_num')::integer >= 160000 THEN
    CREATE FUNCTION holdfast.is_json(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
      'SELECT CASE WHEN length(p_text) < 2000 THEN p_text IS JSON ELSE holdfast.is_json_guarded(p_text) END';
  ELSE
    CREATE FUNCTION holdfast.is_json(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
      'SELECT holdfast.is_json_guarded(p_text)';
  END IF;
END $$;

-- Texts that are all JSON, as they are. One guarded block for all of them.
CREATE FUNCTION holdfast.checked_json(p_texts text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  PERFORM p_texts::json[];
  RETURN p_texts;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  PERFORM holdfast.refuse('HF001', 'payload or properties is not JSON');
END $$;

-- Append one event. The key is taken first, so that whoever else uses it waits for our commit; then the stream's row,
-- whose lock is kept to the commit; then nothing else can refuse.
DROP FUNCTION holdfast.accept;
CREATE FUNCTION holdfast.accept(
  p_id text, p_type text, p_payload text, p_source text, p_stream text, p_timestamp text, p_properties text,
  p_key text, p_to text, p_not_before bigint, p_accepted_at bigint, p_digest text, p_ring boolean
) RETURNS holdfast.published LANGUAGE plpgsql AS $$
DECLARE
  v_source text := coalesce(p_source, 'app');
  v_now    bigint := holdfast.now_ms();
  v_at     bigint := coalesce(p_accepted_at, v_now);
  v_id     text := coalesce(p_id, 'evt_' || lpad(to_hex(v_now), 12, '0')
                                  || right(replace(gen_random_uuid()::text, '-', ''), 20));
  v_seq    bigint := 1;
  v_closed bigint;
  v_known  bigint;
  v_first  holdfast.dedup;
  v_n      bigint;
BEGIN
  IF p_type IS NULL OR length(p_type) NOT BETWEEN 1 AND 255 THEN
    PERFORM holdfast.refuse('HF001', 'type is missing or longer than 255 characters');
  ELSIF p_payload IS NOT NULL AND NOT holdfast.is_json(p_payload) THEN
    PERFORM holdfast.refuse('HF001', 'payload is not JSON');
  ELSIF p_properties <> '{}' AND (NOT holdfast.is_json(p_properties) OR json_typeof(p_properties::json) <> 'object') THEN
    PERFORM holdfast.refuse('HF001', 'properties is not a JSON object');
  ELSIF p_to !~ '^(https?://|handler:|session:).' THEN
    PERFORM holdfast.refuse('HF001', 'to is not an address: use https://…, handler:NAME or session:ID');
  ELSIF p_not_before IS NOT NULL AND p_stream IS NOT NULL THEN
    PERFORM holdfast.refuse('HF001', 'not_before cannot be combined with stream');
  END IF;
  IF p_id IS NOT NULL THEN
    SELECT e.seq INTO v_known FROM holdfast.events e WHERE e.id = p_id;
  END IF;
  IF p_key IS NOT NULL THEN
    IF v_known IS NULL THEN
      INSERT INTO holdfast.dedup (source, key, event_id, stream, seq, digest, created_at)
      VALUES (v_source, p_key, v_id, p_stream, 1, p_digest, v_at) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO v_first FROM holdfast.dedup d WHERE d.source = v_source AND d.key = p_key;
    IF v_first.event_id IS NOT NULL AND (v_known IS NOT NULL OR v_first.event_id <> v_id) THEN
      IF holdfast.differs(v_first, p_digest, p_type, p_stream, p_payload) THEN
        PERFORM holdfast.refuse('HF002', 'dedup_key was used with another body');
      END IF;
      RETURN (v_first.event_id, coalesce(v_first.stream, v_first.event_id), v_first.seq, v_first.event_id <> v_id);
    ELSIF v_known IS NULL AND v_first.event_id IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'holdfast: the key was forgotten meanwhile';
    END IF;
  END IF;
  IF v_known IS NOT NULL THEN  -- what was accepted under this id before may be said again
    RETURN (v_id, coalesce(p_stream, v_id), v_known, false);
  END IF;
  IF p_stream IS NOT NULL THEN
    INSERT INTO holdfast.streams AS s (id, head, created_at) VALUES (p_stream, 1, v_at)
    ON CONFLICT (id) DO UPDATE SET head = s.head + 1 RETURNING s.head, s.closed_at INTO v_seq, v_closed;
    IF v_closed IS NOT NULL THEN
      PERFORM holdfast.refuse('HF003', 'stream is closed');
    END IF;
    IF p_key IS NOT NULL AND v_seq <> 1 THEN
      UPDATE holdfast.dedup d SET seq = v_seq WHERE d.source = v_source AND d.key = p_key;
    END IF;
  END IF;
  INSERT INTO holdfast.events
    (id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
  VALUES (
    v_id, p_stream, v_seq, v_source, p_type,
    coalesce(p_timestamp, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
    v_at, coalesce(p_properties, '{}'), coalesce(p_payload, 'null'), p_key, p_to, p_not_before
  ) RETURNING n INTO v_n;
  INSERT INTO holdfast.unrouted (event) VALUES (v_n);
  IF p_ring AND holdfast.is_quiet(v_n) THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
  RETURN (v_id, coalesce(p_stream, v_id), v_seq, false);
END $$;

-- SECURITY DEFINER with a fixed search_path: a role that may only call this needs no right on any table. Its answer is of
-- another kind now, so it is made anew, with the owner and the rights of the one before.
ALTER FUNCTION holdfast.publish RENAME TO publish_before;
CREATE FUNCTION holdfast.publish(
  type text, payload text DEFAULT NULL, source text DEFAULT NULL, stream text DEFAULT NULL,
  "timestamp" text DEFAULT NULL, properties text DEFAULT NULL, dedup_key text DEFAULT NULL, "to" text DEFAULT NULL,
  not_before bigint DEFAULT NULL, id text DEFAULT NULL, accepted_at bigint DEFAULT NULL, digest text DEFAULT NULL
) RETURNS holdfast.published
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_n      bigint;
  v_id     text;
  v_before bigint;
BEGIN
  -- Where `accept` would have nothing to look for: as few expressions as can be, since each costs its part anew in every
  -- transaction.
  IF length($1) BETWEEN 1 AND 255 AND $4 IS NULL AND $7 IS NULL AND $8 IS NULL AND $9 IS NULL AND $10 IS NULL
     AND ($2 IS NULL OR holdfast.is_json($2)) AND ($6 IS NULL OR $6 = '{}') THEN
    INSERT INTO holdfast.events (id, source, type, timestamp, accepted_at, payload)
    VALUES (
      'evt_' || lpad(to_hex(holdfast.now_ms()), 12, '0') || right(replace(gen_random_uuid()::text, '-', ''), 20),
      coalesce($3, 'app'), $1,
      coalesce($5, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
      coalesce($11, holdfast.now_ms()), coalesce($2, 'null')
    ) RETURNING n, id INTO v_n, v_id;
    INSERT INTO holdfast.unrouted (event) VALUES (v_n);
    SELECT event INTO v_before FROM holdfast.unrouted WHERE event < v_n AND event >= v_n - 200
    ORDER BY event DESC LIMIT 1;
    IF v_before IS NULL THEN
      PERFORM pg_notify('holdfast_events', '');
    END IF;
    RETURN (v_id, v_id, 1::bigint, false);
  END IF;
  RETURN holdfast.accept($10, $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, true);
END $$;
REVOKE ALL ON FUNCTION holdfast.publish FROM PUBLIC;

DO $$
DECLARE
  v_before regproc := 'holdfast.publish_before';
  v_owner  regrole := (SELECT proowner FROM pg_catalog.pg_proc WHERE oid = v_before);
  v_given  text;
BEGIN
  FOR v_given IN
    SELECT (CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
           || (CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_catalog.pg_proc p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) a
    WHERE p.oid = v_before AND a.grantee <> p.proowner
  LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION holdfast.publish TO ' || v_given;
  END LOOP;
  IF v_owner <> current_user::regrole THEN
    EXECUTE 'ALTER FUNCTION holdfast.publish OWNER TO ' || v_owner;
  END IF;
END $$;
DROP FUNCTION holdfast.publish_before;
