-- name: unrouted_take
SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, 'null', e.address,
       e.not_before
FROM holdfast_unrouted u JOIN holdfast_events e ON e.n = u.event ORDER BY u.event LIMIT ?;

-- name: unrouted_done
DELETE FROM holdfast_unrouted WHERE event = ?;

-- name: unrouted_count
SELECT count(*) FROM holdfast_unrouted;

-- name: unmatched_add
INSERT INTO holdfast_unmatched (event) VALUES (?) ON CONFLICT DO NOTHING;

-- name: delivery_last
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_deliveries'), 0);

-- name: delivery_known
SELECT 1 FROM holdfast_deliveries WHERE event = ? AND queue = ?;

-- name: delivery_add
INSERT INTO holdfast_deliveries (id, event, queue, lane, pos, created_at, burst) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: lane_join
INSERT INTO holdfast_lanes (key, tail, open, paused)
VALUES (?1, 1, 1, EXISTS (SELECT 1 FROM holdfast_pauses WHERE scope = 'lane' AND name = ?1))
ON CONFLICT (key) DO UPDATE SET tail = tail + 1, open = open + 1
RETURNING id, tail, open, paused;

-- name: ready_add
INSERT INTO holdfast_ready (delivery, queue, due_at) VALUES (?, ?, ?);

-- name: burst_behind
-- What waits just before a place in a lane, nearest first.
SELECT d.id, d.burst, r.token IS NOT NULL, d.generation, d.attempts, e.id
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event LEFT JOIN holdfast_ready r ON r.delivery = d.id
WHERE d.lane = ? AND d.pos < ? AND d.state = 'pending' ORDER BY d.pos DESC LIMIT ?;

-- name: burst_oldest
SELECT d.id, d.generation, d.attempts, e.id
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event LEFT JOIN holdfast_ready r ON r.delivery = d.id
WHERE d.lane = ? AND d.state = 'pending' AND d.burst IS NOT NULL AND r.token IS NULL ORDER BY d.pos LIMIT ?;
