-- name: prune_deliveries
-- Ended deliveries past their time. A dead one is kept longer than the rest; messages for sessions shorter.
SELECT d.id FROM holdfast_deliveries d JOIN holdfast_queues q ON q.id = d.queue
WHERE d.id > ?1 AND d.id <= ?1 + ?2 AND d.state <> 'pending'
  AND d.settled_at < CASE WHEN d.state = 'dead' THEN ?5 WHEN q.kind = 'session' THEN ?4 ELSE ?3 END
LIMIT ?6;

-- name: prune_delivery
DELETE FROM holdfast_deliveries WHERE id = ?;

-- name: prune_attempts
DELETE FROM holdfast_attempts WHERE delivery = ?;

-- name: prune_span
SELECT (SELECT coalesce(min(id), 0) FROM holdfast_deliveries), (SELECT coalesce(max(id), 0) FROM holdfast_deliveries),
       (SELECT coalesce(min(n), 0) FROM holdfast_events), (SELECT coalesce(max(n), 0) FROM holdfast_events);

-- name: prune_events
-- Never an event that waits for the router, still has a delivery, or that a live reader has not passed; with ?6, of a
-- stream only what is in an archive.
SELECT e.n, e.stream, e.seq FROM holdfast_events e
WHERE e.n > ?1 AND e.n <= ?1 + ?2 AND e.accepted_at < ?3
  AND e.n <= (SELECT place FROM holdfast_router)
  AND NOT EXISTS (SELECT 1 FROM holdfast_again a WHERE a.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cursors c WHERE c.stream = coalesce(e.stream, e.id) AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > ?4))
  AND (?6 = 0 OR e.stream IS NULL OR e.seq <= (SELECT s.archived FROM holdfast_streams s WHERE s.id = e.stream))
ORDER BY e.n LIMIT ?5;

-- name: archive_candidates
-- Events of streams that could be pruned and are in no archive.
SELECT e.n, e.stream, e.seq FROM holdfast_events e JOIN holdfast_streams s ON s.id = e.stream
WHERE e.n > ?1 AND e.n <= ?1 + ?2 AND e.accepted_at < ?3 AND e.seq > s.archived
  AND e.n <= (SELECT place FROM holdfast_router)
  AND NOT EXISTS (SELECT 1 FROM holdfast_again a WHERE a.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cursors c WHERE c.stream = e.stream AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > ?4))
ORDER BY e.n LIMIT ?5;

-- name: archive_span
SELECT coalesce(min(n), 0), coalesce(max(n), 0) FROM holdfast_events;

-- name: archive_first
-- The first stored event of a stream that is in no archive.
SELECT e.seq FROM holdfast_events e
WHERE e.stream = ?1 AND e.seq > (SELECT s.archived FROM holdfast_streams s WHERE s.id = ?1) ORDER BY e.seq LIMIT 1;

-- name: archive_add
INSERT INTO holdfast_archives (id, events, bytes, sha256, created_at) VALUES (?, ?, ?, ?, ?);

-- name: archived_add
INSERT INTO holdfast_archived (stream, first_seq, last_seq, archive) VALUES (?, ?, ?, ?);

-- name: stream_archived
UPDATE holdfast_streams SET archived = ?3 WHERE id = ?1 AND archived < ?2;

-- name: archive_page
SELECT id, events, bytes, sha256, created_at FROM holdfast_archives WHERE id > ? ORDER BY id LIMIT ?;

-- name: archived_of
SELECT stream, first_seq, last_seq, archive FROM holdfast_archived
WHERE stream = ? AND last_seq > ? ORDER BY first_seq LIMIT ?;

-- name: prune_event
DELETE FROM holdfast_events WHERE n = ?;

-- name: prune_unmatched
DELETE FROM holdfast_unmatched WHERE event = ?;

-- name: stream_emptied
UPDATE holdfast_streams SET emptied_at = ?1
WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.stream = ?2);

-- name: streams_emptied
-- Streams that were empty for a whole period when last checked. Each is checked again and leaves this list.
SELECT id FROM holdfast_streams WHERE emptied_at < ? ORDER BY emptied_at LIMIT ?;

-- name: streams_refilled
UPDATE holdfast_streams SET emptied_at = NULL
WHERE id = ?1 AND EXISTS (SELECT 1 FROM holdfast_events e WHERE e.stream = ?1);

-- name: streams_pinned
-- A reader or a session still refers to it: look again after another period.
UPDATE holdfast_streams SET emptied_at = ?2
WHERE id = ?1 AND emptied_at IS NOT NULL
  AND (EXISTS (SELECT 1 FROM holdfast_cursors c WHERE c.stream = ?1)
       OR EXISTS (SELECT 1 FROM holdfast_sessions s WHERE 'session:' || s.id = ?1 AND s.id = substr(?1, 9)));

-- name: prune_streams
DELETE FROM holdfast_streams WHERE id = ?1 AND emptied_at < ?2;

-- name: sessions_old
-- Sessions that have not changed for the retention time, without stored events and pending messages.
SELECT s.id FROM holdfast_sessions s
WHERE s.updated_at < ?1
  AND NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.stream = 'session:' || s.id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_lanes l WHERE l.key = 'session:' || s.id AND l.open > 0)
ORDER BY s.updated_at LIMIT ?2;

-- name: prune_sessions
DELETE FROM holdfast_sessions WHERE id = ?;

-- name: prune_bookmarks
DELETE FROM holdfast_bookmarks WHERE session = ?;

-- name: prune_bindings
DELETE FROM holdfast_bindings WHERE session = ?;

-- name: prune_blobs
DELETE FROM holdfast_blobs WHERE sha256 IN (
  SELECT sha256 FROM holdfast_blobs WHERE created_at < ? ORDER BY created_at LIMIT ?);

-- name: prune_dedup
DELETE FROM holdfast_dedup WHERE (source, key) IN (
  SELECT source, key FROM holdfast_dedup WHERE created_at < ? LIMIT ?);

-- name: prune_inbox
DELETE FROM holdfast_inbox WHERE (consumer, event_id) IN (
  SELECT consumer, event_id FROM holdfast_inbox WHERE handled_at < ? LIMIT ?);

-- name: prune_lanes
DELETE FROM holdfast_lanes WHERE id IN (
  SELECT l.id FROM holdfast_lanes l WHERE l.open = 0 AND l.paused = 0
    AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.lane = l.id AND d.state = 'pending') LIMIT ?);
