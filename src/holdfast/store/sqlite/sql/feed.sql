-- name: stream_heads
SELECT id, head, created_at, closed_at FROM holdfast_streams WHERE id IN (SELECT value FROM json_each(?));

-- name: feed_newest
SELECT coalesce(max(n), 0) FROM holdfast_events;

-- name: feed_read
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events WHERE n > ? ORDER BY n LIMIT ?;
