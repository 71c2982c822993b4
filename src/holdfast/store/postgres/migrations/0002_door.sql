-- The door: one function from any language, in any transaction. Only `type` is required; it never commits.
-- Refusals carry a code of their own: HF001 bad input, HF002 a dedup key used with another body, HF003 stream closed.

CREATE FUNCTION holdfast.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

CREATE FUNCTION holdfast.refuse(p_code text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = p_code, MESSAGE = 'holdfast: ' || p_message;
END $$;

-- Whether a text is JSON. (IS JSON came with PostgreSQL 16.)
CREATE FUNCTION holdfast.is_json(p_text text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN p_text::json IS NOT NULL;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  RETURN false;
END $$;

-- Whether what came with a key before says something else. Without digests on both sides the stored body decides.
CREATE FUNCTION holdfast.differs(p_first holdfast.dedup, p_digest text, p_type text, p_stream text, p_payload text)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN p_first.digest IS NOT NULL AND p_digest IS NOT NULL THEN p_first.digest <> p_digest
    ELSE coalesce((SELECT e.type <> p_type OR e.stream IS DISTINCT FROM p_stream
                          OR e.payload <> coalesce(p_payload, 'null')
                   FROM holdfast.events e WHERE e.id = p_first.event_id), false)
  END
$$;

-- A hint that there is something to route, when the last few hundred events left nothing waiting: a NOTIFY takes a lock
-- that all of the server's notifying commits share, so a busy router is not told what it will see anyway.
CREATE FUNCTION holdfast.ring(p_n bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM holdfast.unrouted WHERE event < p_n AND event >= p_n - 200) THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
END $$;

-- Append one event. The key is taken first, so that whoever else uses it waits for our commit; then the stream's row,
-- whose lock is kept to the commit; then nothing else can refuse.
CREATE FUNCTION holdfast.accept(
  p_id text, p_type text, p_payload text, p_source text, p_stream text, p_timestamp text, p_properties text,
  p_key text, p_to text, p_not_before bigint, p_accepted_at bigint, p_digest text, p_ring boolean
) RETURNS TABLE (id text, stream text, seq bigint, duplicate boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
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
      id := v_first.event_id;
      stream := coalesce(v_first.stream, v_first.event_id);
      seq := v_first.seq;
      duplicate := v_first.event_id <> v_id;
      RETURN NEXT;
      RETURN;
    ELSIF v_known IS NULL AND v_first.event_id IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'holdfast: the key was forgotten meanwhile';
    END IF;
  END IF;
  id := v_id;
  stream := coalesce(p_stream, v_id);
  duplicate := false;
  IF v_known IS NOT NULL THEN  -- what was accepted under this id before may be said again
    seq := v_known;
    RETURN NEXT;
    RETURN;
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
  IF p_ring THEN
    PERFORM holdfast.ring(v_n);
  END IF;
  seq := v_seq;
  RETURN NEXT;
END $$;

-- Append many events at once, in their order; all or none. Keys, then streams are locked in sorted order, so that two
-- of these never wait for each other in a circle. No id and no key comes twice: the caller has seen to that.
CREATE FUNCTION holdfast.accept_many(
  p_ids text[], p_types text[], p_payloads text[], p_sources text[], p_streams text[], p_timestamps text[],
  p_properties text[], p_keys text[], p_tos text[], p_not_befores bigint[], p_accepted_at bigint, p_digests text[],
  p_ring boolean
) RETURNS TABLE (ord bigint, id text, stream text, seq bigint, duplicate boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_keyed   boolean := EXISTS (SELECT FROM unnest(p_keys) k WHERE k IS NOT NULL);
  v_fresh   bigint[];
  v_streams text[] := '{}';
  v_heads   bigint[] := '{}';
  v_closed  boolean := false;
  v_n       bigint;
BEGIN
  IF EXISTS (SELECT FROM unnest(p_payloads, p_properties) f(payload, properties)
             WHERE NOT holdfast.is_json(f.payload) OR (f.properties <> '{}' AND NOT holdfast.is_json(f.properties))) THEN
    PERFORM holdfast.refuse('HF001', 'payload or properties is not JSON');
  END IF;
  IF v_keyed THEN
    INSERT INTO holdfast.dedup (source, key, event_id, stream, seq, digest, created_at)
    SELECT f.source, f.key, f.id, f.stream, 1, f.digest, p_accepted_at
    FROM unnest(p_ids, p_sources, p_streams, p_keys, p_digests) f(id, source, stream, key, digest)
    WHERE f.key IS NOT NULL AND NOT EXISTS (SELECT FROM holdfast.events e WHERE e.id = f.id)
    ORDER BY f.source, f.key ON CONFLICT DO NOTHING;
    IF EXISTS (
      SELECT FROM unnest(p_ids, p_types, p_payloads, p_sources, p_streams, p_keys, p_digests)
        f(id, type, payload, source, stream, key, digest)
      JOIN holdfast.dedup d ON d.source = f.source AND d.key = f.key
      WHERE holdfast.differs(d, f.digest, f.type, f.stream, f.payload)
    ) THEN
      PERFORM holdfast.refuse('HF002', 'dedup_key was used with another body');
    END IF;
    SELECT array_agg(f.ord ORDER BY f.ord) INTO v_fresh
    FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord)
    LEFT JOIN holdfast.dedup d ON d.source = f.source AND d.key = f.key
    WHERE coalesce(d.event_id, f.id) = f.id AND NOT EXISTS (SELECT FROM holdfast.events e WHERE e.id = f.id);
  ELSE
    SELECT array_agg(f.ord ORDER BY f.ord) INTO v_fresh FROM unnest(p_ids) WITH ORDINALITY f(id, ord)
    WHERE NOT EXISTS (SELECT FROM holdfast.events e WHERE e.id = f.id);
  END IF;
  IF EXISTS (SELECT FROM unnest(p_streams) s WHERE s IS NOT NULL) THEN
    WITH grown AS (
      INSERT INTO holdfast.streams AS s (id, head, created_at)
      SELECT f.stream, count(*), p_accepted_at FROM unnest(p_streams) WITH ORDINALITY f(stream, ord)
      WHERE f.stream IS NOT NULL AND f.ord = ANY (v_fresh) GROUP BY f.stream ORDER BY f.stream COLLATE "C"
      ON CONFLICT (id) DO UPDATE SET head = s.head + excluded.head RETURNING s.id, s.head, s.closed_at
    )
    SELECT array_agg(g.id), array_agg(g.head), bool_or(g.closed_at IS NOT NULL) INTO v_streams, v_heads, v_closed
    FROM grown g;
    IF v_closed THEN
      PERFORM holdfast.refuse('HF003', 'stream is closed');
    END IF;
  END IF;
  WITH fresh AS (
    SELECT f.*, row_number() OVER (PARTITION BY f.stream ORDER BY f.ord) - count(*) OVER (PARTITION BY f.stream) AS back
    FROM unnest(p_ids, p_types, p_payloads, p_sources, p_streams, p_timestamps, p_properties, p_keys, p_tos,
                p_not_befores) WITH ORDINALITY
      f(id, type, payload, source, stream, timestamp, properties, key, address, not_before, ord)
    WHERE f.ord = ANY (v_fresh)
  ), added AS (
    INSERT INTO holdfast.events
      (id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
    SELECT f.id, f.stream, coalesce(s.head + f.back, 1), f.source, f.type, f.timestamp, p_accepted_at, f.properties,
           f.payload, f.key, f.address, f.not_before
    FROM fresh f LEFT JOIN unnest(v_streams, v_heads) s(id, head) ON s.id = f.stream ORDER BY f.ord
    RETURNING n
  ), waiting AS (
    INSERT INTO holdfast.unrouted (event) SELECT n FROM added RETURNING event
  )
  SELECT min(event) INTO v_n FROM waiting;
  IF v_n IS NOT NULL AND p_ring THEN
    PERFORM holdfast.ring(v_n);
  END IF;
  IF NOT v_keyed THEN
    RETURN QUERY SELECT f.ord, f.id, coalesce(e.stream, f.id), e.seq, false
    FROM unnest(p_ids) WITH ORDINALITY f(id, ord) JOIN holdfast.events e ON e.id = f.id;
    RETURN;
  END IF;
  UPDATE holdfast.dedup d SET seq = e.seq
  FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord) JOIN holdfast.events e ON e.id = f.id
  WHERE f.ord = ANY (v_fresh) AND d.source = f.source AND d.key = f.key AND d.seq <> e.seq;
  RETURN QUERY SELECT f.ord, coalesce(d.event_id, f.id), coalesce(d.stream, e.stream, d.event_id, f.id),
                      coalesce(d.seq, e.seq), coalesce(d.event_id <> f.id, false)
  FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord)
  LEFT JOIN holdfast.dedup d ON d.source = f.source AND d.key = f.key
  LEFT JOIN holdfast.events e ON e.id = f.id;
END $$;

-- SECURITY DEFINER with a fixed search_path: a role that may only call this needs no right on any table.
CREATE FUNCTION holdfast.publish(
  type text, payload text DEFAULT NULL, source text DEFAULT NULL, stream text DEFAULT NULL,
  "timestamp" text DEFAULT NULL, properties text DEFAULT NULL, dedup_key text DEFAULT NULL, "to" text DEFAULT NULL,
  not_before bigint DEFAULT NULL, id text DEFAULT NULL, accepted_at bigint DEFAULT NULL, digest text DEFAULT NULL
) RETURNS TABLE (id text, stream text, seq bigint, duplicate boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT * FROM holdfast.accept($10, $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, true)
$$;
REVOKE ALL ON FUNCTION holdfast.publish FROM PUBLIC;
