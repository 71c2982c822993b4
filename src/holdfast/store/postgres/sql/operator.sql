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

-- name: attempts_of
SELECT generation, attempt, started_at, ended_at, outcome, error, detail
FROM {schema}.attempts WHERE delivery = $1 ORDER BY id;

-- name: dead_count
SELECT coalesce(nullif(q.contract, ''), q.address), count(*)
FROM {schema}.deliveries d JOIN {schema}.queues q ON q.id = d.queue
WHERE d.reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler') GROUP BY 1;

-- name: dead_count_filtered
SELECT coalesce(nullif(q.contract, ''), q.address), count(*)
FROM {schema}.deliveries d JOIN {schema}.queues q ON q.id = d.queue JOIN {schema}.events e ON e.n = d.event
WHERE d.reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler')
  AND ($1::text IS NULL OR d.reason = $1) AND ($2::text IS NULL OR q.contract = $2)
  AND ($3::text IS NULL OR q.address = $3) AND ($4::text IS NULL OR coalesce(e.stream, e.id) = $4)
  AND ($5::text IS NULL OR e.id = $5)
GROUP BY 1;

-- name: dead_oldest
SELECT d.id
FROM {schema}.deliveries d JOIN {schema}.queues q ON q.id = d.queue JOIN {schema}.events e ON e.n = d.event
WHERE d.reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler')
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

-- name: delivery_revive
UPDATE {schema}.deliveries d
SET state = 'pending', reason = NULL, settled_at = NULL, survivor = NULL, attempts = 0, generation = d.generation + 1,
    lane = w.lane, pos = w.pos
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) w(id, lane, pos) WHERE d.id = w.id;

-- name: lane_pause
UPDATE {schema}.lanes SET paused = $2 WHERE key = $1 RETURNING id;

-- name: figures_lanes
SELECT count(*), coalesce(sum(open), 0)::bigint FROM {schema}.lanes WHERE open > 0;

-- name: figures_dead
SELECT count(*) FROM {schema}.deliveries WHERE reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler');

-- name: figures_events
SELECT events, unmatched, streams, (SELECT count(*) FROM {schema}.unrouted) FROM {schema}.counts;

-- name: figures_first
-- Events at the head of a stream of their own, among those that wait for the router.
SELECT count(*) FROM {schema}.unrouted u JOIN {schema}.events e ON e.n = u.event WHERE e.seq = 1 AND e.stream IS NOT NULL;

-- name: counts_add
UPDATE {schema}.counts SET events = events + $1, unmatched = unmatched + $2, streams = streams + $3;
