-- name: delivery_columns
SELECT d.id, e.id, e.type, e.stream, e.seq, q.address, q.contract, d.state, d.reason, d.attempts, d.generation,
       r.due_at, r.token IS NOT NULL, coalesce(r.starts, 0), d.survivor, d.created_at, d.settled_at, d.last_error,
       CASE WHEN d.state <> 'pending' THEN NULL
            WHEN q.parked THEN 'contract disabled'
            WHEN q.paused OR coalesce(l.paused, 0) THEN 'paused'
            WHEN d.handed_until IS NOT NULL THEN 'confirmation'
            WHEN r.delivery IS NULL THEN 'head of lane'
            WHEN r.token IS NOT NULL THEN NULL
            WHEN EXISTS (SELECT 1 FROM holdfast_gates g WHERE g.address = q.address AND g.open_until IS NOT NULL)
              THEN 'breaker open'
            WHEN d.attempts > 0 THEN 'next attempt' END
FROM holdfast_deliveries d
JOIN holdfast_events e ON e.n = d.event
JOIN holdfast_queues q ON q.id = d.queue
LEFT JOIN holdfast_lanes l ON l.id = d.lane
LEFT JOIN holdfast_ready r ON r.delivery = d.id;

-- name: states_of
SELECT e.id, d.state, count(*) FROM holdfast_events e JOIN holdfast_deliveries d ON d.event = e.n
WHERE e.id IN (SELECT value FROM json_each(?)) GROUP BY e.id, d.state;

-- name: attempts_of
SELECT generation, attempt, started_at, ended_at, outcome, error, detail
FROM holdfast_attempts WHERE delivery = ? ORDER BY id;

-- name: dead_groups
-- Grouped before the queues are joined, and by an index that has every column it needs.
SELECT nullif(q.contract, ''), q.address, g.reason, g.number
FROM (SELECT d.queue, d.reason, count(*) AS number FROM holdfast_deliveries d
      WHERE d.state = 'dead' AND (?1 IS NULL OR d.reason = ?1)
        AND (?4 IS NULL OR EXISTS (SELECT 1 FROM holdfast_events e WHERE e.n = d.event AND coalesce(e.stream, e.id) = ?4))
        AND (?5 IS NULL OR d.event = (SELECT n FROM holdfast_events WHERE id = ?5))
      GROUP BY d.queue, d.reason) g
JOIN holdfast_queues q ON q.id = g.queue
WHERE (?2 IS NULL OR q.contract = ?2) AND (?3 IS NULL OR q.address = ?3);

-- name: dead_oldest
SELECT d.id
FROM holdfast_deliveries d JOIN holdfast_queues q ON q.id = d.queue JOIN holdfast_events e ON e.n = d.event
WHERE d.state = 'dead'
  AND (?1 IS NULL OR d.reason = ?1) AND (?2 IS NULL OR q.contract = ?2) AND (?3 IS NULL OR q.address = ?3)
  AND (?4 IS NULL OR coalesce(e.stream, e.id) = ?4) AND (?5 IS NULL OR e.id = ?5)
ORDER BY d.id LIMIT ?6;

-- name: delivery_facts
SELECT d.state, d.generation, d.attempts, d.lane, d.queue, e.id, e.stream, q.contract, q.address, q.kind
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event JOIN holdfast_queues q ON q.id = d.queue
WHERE d.id = ?;

-- name: delivery_requeue
UPDATE holdfast_deliveries
SET state = 'pending', reason = NULL, settled_at = NULL, survivor = NULL, attempts = 0, generation = generation + 1,
    lane = ?, pos = ?
WHERE id = ?;

-- name: lane_pause
UPDATE holdfast_lanes SET paused = ?2 WHERE key = ?1 RETURNING id;

-- name: lane_open
SELECT open FROM holdfast_lanes WHERE key = ?;

-- name: lane_pending
SELECT d.id, e.id FROM holdfast_lanes l JOIN holdfast_deliveries d ON d.lane = l.id AND d.state = 'pending'
JOIN holdfast_events e ON e.n = d.event WHERE l.key = ?1 ORDER BY d.pos LIMIT ?2;

-- name: lanes_stuck
SELECT l.key, l.open, d.id, e.id, d.attempts, d.last_error, d.created_at
FROM (SELECT id, key, open FROM holdfast_lanes WHERE open > 1 AND paused = 0 ORDER BY open DESC, id LIMIT 200) l
JOIN holdfast_deliveries d ON d.id = (
  SELECT h.id FROM holdfast_deliveries h WHERE h.lane = l.id AND h.state = 'pending' AND h.lane IS NOT NULL ORDER BY h.pos LIMIT 1)
JOIN holdfast_events e ON e.n = d.event
WHERE d.attempts > 0 ORDER BY l.open DESC, l.id LIMIT ?;

-- name: queue_lanes
-- The lanes of a contract or direct address: how many wait in them, and how many of them are not paused.
SELECT count(*), coalesce(sum(open), 0), coalesce(sum(paused = 0), 0) FROM (
  SELECT open, paused FROM holdfast_lanes WHERE (key = ?1 OR (key >= ?1 || ' ' AND key < ?1 || '!')) AND open > 0 LIMIT ?2) l;

-- name: queue_named
SELECT id, contract, address FROM holdfast_queues WHERE contract = ?1 AND contract <> ''
UNION ALL
SELECT id, contract, address FROM holdfast_queues WHERE address = ?1 AND contract = '';

-- name: delivery_created
SELECT created_at FROM holdfast_deliveries WHERE id = ?;

-- name: figures_lanes
SELECT count(*), coalesce(sum(open), 0) FROM holdfast_lanes WHERE open > 0;

-- name: figures_dead
SELECT reason, count(*) FROM holdfast_deliveries WHERE state = 'dead' GROUP BY reason;

-- name: figures_events
SELECT events, unmatched, streams FROM holdfast_counts;

-- name: counts_add
UPDATE holdfast_counts SET events = events + ?, unmatched = unmatched + ?;
