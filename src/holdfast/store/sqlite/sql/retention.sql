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
-- Never an event that waits for the router, still has a delivery, or that a live reader has not passed.
SELECT e.n, e.stream FROM holdfast_events e
WHERE e.n > ?1 AND e.n <= ?1 + ?2 AND e.accepted_at < ?3
  AND e.n <= (SELECT place FROM holdfast_router)
  AND NOT EXISTS (SELECT 1 FROM holdfast_again a WHERE a.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cursors c WHERE c.stream = coalesce(e.stream, e.id) AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > ?4))
LIMIT ?5;

-- name: prune_event
DELETE FROM holdfast_events WHERE n = ?;

-- name: prune_unmatched
DELETE FROM holdfast_unmatched WHERE event = ?;

-- name: stream_emptied
UPDATE holdfast_streams SET emptied_at = ?1
WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.stream = ?2);

-- name: streams_emptied
-- Those that have been empty for long, as far as is known. Each one that is looked at leaves this list.
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
-- Sessions that have not changed for long, of which no event is left and for which no message waits.
SELECT s.id FROM holdfast_sessions s
WHERE s.updated_at < ?1
  AND NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.stream = 'session:' || s.id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_lanes l WHERE l.key = 'session:' || s.id AND l.open > 0)
ORDER BY s.updated_at LIMIT ?2;

-- name: prune_sessions
DELETE FROM holdfast_sessions WHERE id = ?;

-- name: prune_bookmarks
DELETE FROM holdfast_bookmarks WHERE session = ?;

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
