-- name: delivery_columns
SELECT d.id, e.id, e.type, e.stream, e.seq, q.address, q.contract, d.state, d.reason, d.attempts, d.generation,
       r.due_at, r.token IS NOT NULL, coalesce(r.starts, 0), d.survivor, d.created_at, d.settled_at, d.last_error,
       CASE WHEN d.state <> 'pending' THEN NULL
            WHEN q.parked THEN 'contract disabled'
            WHEN q.paused OR coalesce(l.paused, false) THEN 'paused'
            WHEN d.handed_until IS NOT NULL THEN 'confirmation'
            WHEN r.delivery IS NULL THEN 'head of lane'
            WHEN r.token IS NOT NULL THEN NULL
            WHEN EXISTS (SELECT 1 FROM {schema}.gates g WHERE g.address = q.address AND g.open_until IS NOT NULL)
              THEN 'breaker open'
            WHEN d.attempts > 0 THEN 'next attempt' END
FROM {schema}.deliveries d
JOIN {schema}.events e ON e.n = d.event
JOIN {schema}.queues q ON q.id = d.queue
LEFT JOIN {schema}.lanes l ON l.id = d.lane
LEFT JOIN {schema}.ready r ON r.delivery = d.id;

-- name: delivery_last
SELECT coalesce(max(id), 0) FROM {schema}.deliveries;

-- name: states_of
SELECT e.id, d.state, count(*) FROM {schema}.events e JOIN {schema}.deliveries d ON d.event = e.n
WHERE e.id = ANY ($1::text[]) GROUP BY e.id, d.state;

-- name: attempts_of
SELECT generation, attempt, started_at, ended_at, outcome, error, detail
FROM {schema}.attempts WHERE delivery = $1 ORDER BY id;

-- name: dead_groups
-- Grouped before the queues are joined, and by an index that has every column it needs.
SELECT nullif(q.contract, ''), q.address, g.reason, g.number
FROM (SELECT d.queue, d.reason, count(*) AS number FROM {schema}.deliveries d
      WHERE d.reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler', 'no_session', 'ambiguous', 'unconfirmed')
        AND ($1::text IS NULL OR d.reason = $1)
        AND ($4::text IS NULL OR EXISTS (
          SELECT FROM {schema}.events e WHERE e.n = d.event AND coalesce(e.stream, e.id) = $4))
        AND ($5::text IS NULL OR d.event = (SELECT n FROM {schema}.events WHERE id = $5))
      GROUP BY d.queue, d.reason) g
JOIN {schema}.queues q ON q.id = g.queue
WHERE ($2::text IS NULL OR q.contract = $2) AND ($3::text IS NULL OR q.address = $3);

-- name: dead_oldest
SELECT d.id
FROM {schema}.deliveries d JOIN {schema}.queues q ON q.id = d.queue JOIN {schema}.events e ON e.n = d.event
WHERE d.reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler', 'no_session', 'ambiguous', 'unconfirmed')
  AND ($1::text IS NULL OR d.reason = $1) AND ($2::text IS NULL OR q.contract = $2)
  AND ($3::text IS NULL OR q.address = $3) AND ($4::text IS NULL OR coalesce(e.stream, e.id) = $4)
  AND ($5::text IS NULL OR e.id = $5)
ORDER BY d.id LIMIT $6;

-- name: delivery_facts
-- Locked in one order, so that two operators with the same list do not wait for each other in a circle.
SELECT d.id, d.state, d.generation, d.lane, d.queue, e.id, e.stream, q.contract, q.address, q.kind
FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event JOIN {schema}.queues q ON q.id = d.queue
WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id FOR UPDATE OF d;

-- name: delivery_events
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event WHERE d.id = ANY ($1::bigint[]);

-- name: delivery_requeue
UPDATE {schema}.deliveries d
SET state = 'pending', reason = NULL, settled_at = NULL, survivor = NULL, attempts = 0, generation = d.generation + 1,
    lane = w.lane, pos = w.pos
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) w(id, lane, pos) WHERE d.id = w.id;

-- name: lane_pause
UPDATE {schema}.lanes SET paused = $2 WHERE key = $1 RETURNING id;

-- name: lane_open
SELECT open FROM {schema}.lanes WHERE key = $1;

-- name: lane_pending
SELECT d.id, e.id FROM {schema}.lanes l JOIN {schema}.deliveries d ON d.lane = l.id AND d.pos > 0
JOIN {schema}.events e ON e.n = d.event WHERE l.key = $1 ORDER BY d.pos LIMIT $2;

-- name: lanes_stuck
SELECT l.key, l.open, d.id, e.id, d.attempts, d.last_error, d.created_at
FROM (SELECT id, key, open FROM {schema}.lanes WHERE open > 1 AND NOT paused ORDER BY open DESC, id LIMIT 200) l
JOIN {schema}.deliveries d ON d.id = (
  SELECT h.id FROM {schema}.deliveries h WHERE h.lane = l.id AND h.pos > 0 ORDER BY h.pos LIMIT 1)
JOIN {schema}.events e ON e.n = d.event
WHERE d.attempts > 0 ORDER BY l.open DESC, l.id LIMIT $1;

-- name: queue_lanes
-- The lanes of a contract or direct address: how many wait in them, and how many of them are not paused.
SELECT count(*), coalesce(sum(open), 0)::bigint, coalesce(sum(CASE WHEN paused THEN 0 ELSE 1 END)::bigint, 0)::bigint FROM (
  SELECT open, paused FROM {schema}.lanes WHERE (key = $1::text OR (key >= $1 || ' ' AND key < $1 || '!')) AND open > 0 LIMIT $2) l;

-- name: queue_named
SELECT id, contract, address FROM {schema}.queues WHERE contract = $1 AND contract <> ''
UNION ALL
SELECT id, contract, address FROM {schema}.queues WHERE address = $1 AND contract = '';

-- name: delivery_created
SELECT created_at FROM {schema}.deliveries WHERE id = $1;

-- name: figures_lanes
SELECT count(*), coalesce(sum(open), 0)::bigint FROM {schema}.lanes WHERE open > 0;

-- name: figures_dead
SELECT reason, count(*) FROM {schema}.deliveries WHERE reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler', 'no_session', 'ambiguous', 'unconfirmed')
GROUP BY reason;

-- name: figures_events
SELECT events, unmatched, streams, (SELECT count(*) FROM {schema}.unrouted) FROM {schema}.counts;

-- name: figures_first
-- Events at the head of a stream of their own, among those that wait for the router.
SELECT count(*) FROM {schema}.unrouted u JOIN {schema}.events e ON e.n = u.event WHERE e.seq = 1 AND e.stream IS NOT NULL;

-- name: counts_add
UPDATE {schema}.counts SET events = events + $1, unmatched = unmatched + $2, streams = streams + $3;
