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

-- name: attempts_of
SELECT generation, attempt, started_at, ended_at, outcome, error, detail
FROM holdfast_attempts WHERE delivery = ? ORDER BY id;

-- name: dead_count
SELECT coalesce(nullif(q.contract, ''), q.address), count(*)
FROM holdfast_deliveries d JOIN holdfast_queues q ON q.id = d.queue
WHERE d.state = 'dead' GROUP BY 1;

-- name: dead_count_filtered
SELECT coalesce(nullif(q.contract, ''), q.address), count(*)
FROM holdfast_deliveries d JOIN holdfast_queues q ON q.id = d.queue JOIN holdfast_events e ON e.n = d.event
WHERE d.state = 'dead'
  AND (?1 IS NULL OR d.reason = ?1) AND (?2 IS NULL OR q.contract = ?2) AND (?3 IS NULL OR q.address = ?3)
  AND (?4 IS NULL OR coalesce(e.stream, e.id) = ?4) AND (?5 IS NULL OR e.id = ?5)
GROUP BY 1;

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

-- name: delivery_revive
UPDATE holdfast_deliveries
SET state = 'pending', reason = NULL, settled_at = NULL, survivor = NULL, attempts = 0, generation = generation + 1,
    lane = ?, pos = ?
WHERE id = ?;

-- name: lane_pause
UPDATE holdfast_lanes SET paused = ?2 WHERE key = ?1 RETURNING id;

-- name: figures_lanes
SELECT count(*), coalesce(sum(open), 0) FROM holdfast_lanes WHERE open > 0;

-- name: figures_dead
SELECT count(*) FROM holdfast_deliveries WHERE state = 'dead';

-- name: figures_events
SELECT events, unmatched, streams FROM holdfast_counts;

-- name: counts_add
UPDATE holdfast_counts SET events = events + ?, unmatched = unmatched + ?;
