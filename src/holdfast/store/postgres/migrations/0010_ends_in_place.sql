-- An end is written where the delivery stands. A row's new version can stay on its page, without a new entry in each index,
-- while nothing changed that an index names, be it only in its condition, and while the page has room. So no index names
-- the state: a place that was left is negative, and what is dead is known by its reason.

DROP INDEX holdfast.deliveries_by_lane, holdfast.deliveries_dead;
UPDATE holdfast.deliveries SET pos = -pos WHERE state <> 'pending' AND pos > 0;
ALTER TABLE holdfast.deliveries ADD CONSTRAINT deliveries_place CHECK (pos IS NULL OR (pos > 0) = (state = 'pending'));
CREATE INDEX deliveries_by_lane ON holdfast.deliveries (lane, pos) WHERE pos > 0;
-- The reasons of the dead, as in every statement that looks for them; a test compares them with the table of states.
CREATE INDEX deliveries_dead ON holdfast.deliveries (id)
  WHERE reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler');
ALTER TABLE holdfast.deliveries SET (fillfactor = 45);

-- As before, with the place that is left.
CREATE OR REPLACE FUNCTION holdfast.settle_delivered(
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
        handed_until = NULL, last_error = NULL, pos = -abs(d.pos)
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
        WHERE d.lane = u.lane AND d.pos > 0 ORDER BY d.pos LIMIT 1) head
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
