-- name: event_append
INSERT INTO holdfast_publish
  (id, type, payload, source, stream, timestamp, properties, dedup_key, "to", not_before, accepted_at, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: event_append_plain
-- An event without key and time, written as the door would write it; its parts were checked already.
INSERT INTO holdfast_events (n, id, type, payload, source, stream, seq, timestamp, properties, address, accepted_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: event_number
-- The number of the next event, if it is not simply the one after the last row: see the table.
SELECT place + 1 FROM holdfast_router WHERE place > coalesce((SELECT max(n) FROM holdfast_events), 0);

-- name: stream_extend
-- Nothing is returned if the stream is closed.
INSERT INTO holdfast_streams (id, head, created_at) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET head = head + ?2 WHERE closed_at IS NULL RETURNING head;

-- name: event_seq
SELECT seq FROM holdfast_events WHERE id = ?;

-- name: event_first
SELECT event_id, stream, seq FROM holdfast_dedup WHERE source = ? AND key = ?;

-- name: event_get
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events WHERE id = ?;

-- name: event_prefix
SELECT id FROM holdfast_events WHERE id >= ? AND id < ? ORDER BY id LIMIT 2;

-- name: event_page
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events WHERE n < ? ORDER BY n DESC LIMIT ?;

-- name: event_page_unmatched
SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, e.payload, e.address
FROM holdfast_unmatched u JOIN holdfast_events e ON e.n = u.event WHERE u.event < ? ORDER BY u.event DESC LIMIT ?;

-- name: event_page_stream
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events WHERE stream = ? AND seq < ? ORDER BY seq DESC LIMIT ?;

-- name: stream_read
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM holdfast_events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: stream_first
SELECT min(seq) FROM holdfast_events WHERE stream = ?;

-- name: stream_get
SELECT id, head, created_at, closed_at FROM holdfast_streams WHERE id = ?;

-- name: stream_page
SELECT id, head, created_at, closed_at FROM holdfast_streams WHERE id > ? ORDER BY id LIMIT ?;

-- name: event_reroute
INSERT INTO holdfast_again (event)
SELECT u.event FROM holdfast_unmatched u JOIN holdfast_events e ON e.n = u.event WHERE e.id = ?
ON CONFLICT DO NOTHING;

-- name: event_rerouted
DELETE FROM holdfast_unmatched WHERE event IN (SELECT n FROM holdfast_events WHERE id = ?);
