-- name: unrouted_take
SELECT * FROM {schema}.take_unrouted($1, $2, $3);

-- name: unrouted_first
SELECT event FROM {schema}.unrouted WHERE event > $1 ORDER BY event LIMIT 1;

-- name: unrouted_done
DELETE FROM {schema}.unrouted WHERE event = ANY ($1::bigint[]) RETURNING event;

-- name: unrouted_count
SELECT count(*) FROM {schema}.unrouted;

-- name: unmatched_add
INSERT INTO {schema}.unmatched (event) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING;

-- name: delivery_known
SELECT event, queue FROM {schema}.deliveries WHERE event = ANY ($1::bigint[]);

-- name: lane_join
-- Lanes are always locked in the order of their keys. `paused` is read under the lock.
INSERT INTO {schema}.lanes AS l (key, tail, open, paused)
SELECT w.key, w.more, w.more, EXISTS (SELECT FROM {schema}.pauses p WHERE p.scope = 'lane' AND p.name = w.key)
FROM unnest($1::text[], $2::bigint[]) w(key, more) ORDER BY w.key COLLATE "C"
ON CONFLICT (key) DO UPDATE SET tail = l.tail + excluded.tail, open = l.open + excluded.open
RETURNING l.key, l.id, l.tail, l.open, l.paused;

-- name: burst_new
SELECT id, lane, pos, burst FROM {schema}.deliveries WHERE event = ANY ($1::bigint[]) AND burst IS NOT NULL
ORDER BY lane, pos;

-- name: burst_behind
-- What waits just before a place in a lane, nearest first.
SELECT d.id, d.burst, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.lane = $1 AND d.pos > 0 AND d.pos < $2 ORDER BY d.pos DESC LIMIT $3;

-- name: burst_oldest
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.lane = $1 AND d.pos > 0 AND d.burst IS NOT NULL ORDER BY d.pos LIMIT $2;

-- name: event_routed
-- The events that are stored and do not wait for the router, locked so that retention does not remove them meanwhile.
SELECT e.n FROM {schema}.events e
WHERE e.n = ANY ($1::bigint[]) AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
ORDER BY e.n FOR KEY SHARE OF e;
