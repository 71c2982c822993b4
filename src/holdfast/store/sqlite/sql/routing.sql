-- name: router_place
SELECT place FROM holdfast_router;

-- name: router_advance
UPDATE holdfast_router SET place = ?2 WHERE place = ?1;

-- name: again_take
SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, 'null', e.address,
       e.not_before
FROM holdfast_again a JOIN holdfast_events e ON e.n = a.event ORDER BY a.event LIMIT ?;

-- name: again_done
DELETE FROM holdfast_again WHERE event = ?;

-- name: unrouted_take
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, 'null', address, not_before
FROM holdfast_events WHERE n > ? ORDER BY n LIMIT ?;

-- name: unrouted_count
-- Computed from the numbers of the events, which have no gaps, instead of counting rows.
SELECT (SELECT count(*) FROM holdfast_again)
     + max(0, (SELECT coalesce(max(n), 0) FROM holdfast_events) - (SELECT place FROM holdfast_router));

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
VALUES (?1, ?2, ?2, EXISTS (SELECT 1 FROM holdfast_pauses WHERE scope = 'lane' AND name = ?1))
ON CONFLICT (key) DO UPDATE SET tail = tail + ?2, open = open + ?2
RETURNING id, tail, open, paused;

-- name: event_routed
-- Whether an event is stored and does not wait for the router.
SELECT 1 FROM holdfast_events e WHERE e.n = ?1 AND e.n <= (SELECT place FROM holdfast_router)
  AND NOT EXISTS (SELECT 1 FROM holdfast_again a WHERE a.event = e.n);
