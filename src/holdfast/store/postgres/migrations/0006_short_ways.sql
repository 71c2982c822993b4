-- The short ways of route, claim and settle: one round trip for what happens most. They are functions since each of their
-- steps has to see what was committed a moment before it, and since a step that finds something unforeseen undoes the
-- ones before.

-- One router at a time over the whole schema, until its transaction ends; the table's own number names the lock. Once it
-- is ours: the contracts' version, and the events; without any, one row that has no event. Without it: no row at all.
CREATE FUNCTION holdfast.take_unrouted(p_limit bigint) RETURNS TABLE (
  version bigint, n bigint, id text, stream text, seq bigint, source text, type text, "timestamp" text,
  accepted_at bigint, properties text, payload text, address text, not_before bigint
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
  IF pg_try_advisory_xact_lock('holdfast.unrouted'::regclass::oid::bigint::bit(32)::integer, 0) THEN
    RETURN QUERY
      SELECT m.value::bigint, e.*
      FROM holdfast.meta m LEFT JOIN LATERAL (
        SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, 'null'::text,
               e.address, e.not_before
        FROM holdfast.unrouted u JOIN holdfast.events e ON e.n = u.event ORDER BY u.event LIMIT p_limit) e ON true
      WHERE m.key = 'contracts_version' ORDER BY e.n;
  END IF;
END $$;

-- Every join here goes from a few hundred numbers to rows by an index. Statistics of a queue are stale by nature: left
-- to itself, the planner now and then prefers to read the whole queue, or to compare each lease with every other.

-- Lease for each queue its share, oldest first, without waiting for rows that another process is taking. `p_limit`
-- bounds them all together. Leases run on the database's clock, unless a test brings its own (`p_now`).
-- `starts < 2` is SUSPECT_STARTS, written out so that a partial index can serve those that are suspect.
CREATE FUNCTION holdfast.lease(
  p_owner bigint, p_token bigint, p_now bigint, p_queues bigint[], p_most bigint[], p_lease_ms bigint[], p_due bigint,
  p_limit bigint
) RETURNS TABLE (
  delivery bigint, queue bigint, starts integer, attempts integer, generation integer, handed boolean,
  n bigint, id text, stream text, seq bigint, source text, type text, "timestamp" text, accepted_at bigint,
  properties text, payload text, address text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := coalesce(p_now, holdfast.now_ms());
BEGIN
  -- It needs no flush of its own: a later settle's flush carries it, and a crash only repeats it.
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH picked AS (
    SELECT p.delivery, w.lease_ms
    FROM unnest(p_queues, p_most, p_lease_ms) w(queue, most, lease_ms)
    CROSS JOIN LATERAL (
      SELECT r.delivery FROM holdfast.ready r
      WHERE r.token IS NULL AND r.queue = w.queue AND r.due_at <= p_due AND r.starts < 2
      ORDER BY r.due_at, r.delivery LIMIT w.most FOR UPDATE SKIP LOCKED) p
    LIMIT p_limit
  )
  UPDATE holdfast.ready r
  SET owner = p_owner, token = p_token, lease_until = v_now + picked.lease_ms, starts = r.starts + 1
  FROM picked WHERE r.delivery = picked.delivery;
  RETURN QUERY
    SELECT r.delivery, r.queue, r.starts, d.attempts, d.generation, d.handed_until IS NOT NULL,
           e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, e.payload, e.address
    FROM (SELECT * FROM holdfast.ready WHERE token = p_token ORDER BY due_at, delivery OFFSET 0) r  -- while it is narrow
    JOIN holdfast.deliveries d ON d.id = r.delivery JOIN holdfast.events e ON e.n = d.event
    ORDER BY r.due_at, r.delivery;
END $$;

-- End deliveries that arrived, all of them still held, with a link that follows the head we know. Whatever is not so
-- refuses the whole with HF004: then it is settled the long way, which looks at each of them. The tables are locked in
-- the order of the long way. True: there are new heads of lanes to claim.
CREATE FUNCTION holdfast.settle_delivered(
  p_ids bigint[], p_tokens bigint[], p_attempts integer[], p_at bigint,
  p_chain text, p_seq bigint, p_prev bytea, p_root bytea, p_hash bytea, p_leaves bytea
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_count bigint;
  v_lanes bigint[];
  v_going bigint[];
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  DELETE FROM holdfast.ready r USING unnest(p_ids, p_tokens) w(delivery, token)
  WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count <> cardinality(p_ids) THEN
    PERFORM holdfast.refuse('HF004', 'a lease was lost');
  END IF;
  WITH ended AS (
    UPDATE holdfast.deliveries d
    SET state = 'delivered', reason = NULL, attempts = w.attempts, settled_at = p_at, survivor = NULL,
        handed_until = NULL, last_error = NULL
    FROM unnest(p_ids, p_attempts) w(id, attempts)
    WHERE d.id = w.id AND d.state = 'pending' RETURNING d.lane
  )
  SELECT count(*), array_agg(lane) FILTER (WHERE lane IS NOT NULL) INTO v_count, v_lanes FROM ended;
  IF v_count <> cardinality(p_ids) THEN
    PERFORM holdfast.refuse('HF004', 'one of them has ended already');
  END IF;
  IF v_lanes IS NOT NULL THEN
    WITH gone AS (
      SELECT lane, count(*) AS fewer FROM unnest(v_lanes) u(lane) GROUP BY lane
    ), locked AS (
      SELECT l.id, g.fewer FROM gone g JOIN holdfast.lanes l ON l.id = g.lane ORDER BY l.key FOR UPDATE OF l
    ), behind AS (
      UPDATE holdfast.lanes l SET open = l.open - locked.fewer FROM locked WHERE l.id = locked.id
      RETURNING l.id, l.open, l.paused
    )
    SELECT array_agg(id) FILTER (WHERE open > 0 AND NOT paused) INTO v_going FROM behind;
    IF v_going IS NOT NULL THEN
      INSERT INTO holdfast.ready (delivery, queue, due_at)
      SELECT head.id, head.queue, p_at FROM unnest(v_going) u(lane)
      CROSS JOIN LATERAL (
        SELECT d.id, d.queue, d.handed_until FROM holdfast.deliveries d
        WHERE d.lane = u.lane AND d.state = 'pending' AND d.lane IS NOT NULL ORDER BY d.pos LIMIT 1) head
      WHERE head.handed_until IS NULL
      ON CONFLICT DO NOTHING;
    END IF;
  END IF;
  UPDATE holdfast.nodes SET seq = p_seq, head = p_hash WHERE chain = p_chain AND seq = p_seq - 1 AND head = p_prev;
  IF NOT FOUND THEN
    PERFORM holdfast.refuse('HF004', 'the chain has grown meanwhile');
  END IF;
  INSERT INTO holdfast.receipts (chain, seq, at, prev, root, h_self, leaves)
  VALUES (p_chain, p_seq, p_at, p_prev, p_root, p_hash, p_leaves);
  RETURN v_going IS NOT NULL;
END $$;

-- A text that is JSON, as it is.
CREATE FUNCTION holdfast.checked_json(p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM p_text::json;
  RETURN p_text;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  PERFORM holdfast.refuse('HF001', 'payload or properties is not JSON');
END $$;

-- As before, by the index in every plan: asked only whether there is one, the planner begins at the table's start, and
-- each publish then costs as much as there is to route.
CREATE OR REPLACE FUNCTION holdfast.ring(p_n bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_before bigint;
BEGIN
  SELECT event INTO v_before FROM holdfast.unrouted WHERE event < p_n AND event >= p_n - 200
  ORDER BY event DESC LIMIT 1;
  IF v_before IS NULL THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
END $$;
