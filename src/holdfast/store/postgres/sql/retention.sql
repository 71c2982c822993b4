-- name: prune_deliveries
-- Ended deliveries past their time, locked so that nobody begins them anew meanwhile. A dead one is kept longer than
-- the rest; messages for sessions shorter.
SELECT d.id FROM holdfast.deliveries d JOIN holdfast.queues q ON q.id = d.queue
WHERE d.id > $1 AND d.id <= $1 + $2 AND d.state <> 'pending'
  AND d.settled_at < CASE WHEN d.state = 'dead' THEN $5 WHEN q.kind = 'session' THEN $4 ELSE $3::bigint END
LIMIT $6 FOR UPDATE OF d SKIP LOCKED;

-- name: prune_delivery
DELETE FROM holdfast.deliveries WHERE id = ANY ($1::bigint[]);

-- name: prune_attempts
DELETE FROM holdfast.attempts WHERE delivery = ANY ($1::bigint[]);

-- name: prune_span
SELECT (SELECT coalesce(min(id), 0) FROM holdfast.deliveries), (SELECT coalesce(max(id), 0) FROM holdfast.deliveries),
       (SELECT coalesce(min(n), 0) FROM holdfast.events), (SELECT coalesce(max(n), 0) FROM holdfast.events);

-- name: prune_events
-- Never an event that waits for the router, still has a delivery, or that a live reader has not passed.
SELECT e.n FROM holdfast.events e
WHERE e.n > $1 AND e.n <= $1 + $2 AND e.accepted_at < $3
  AND NOT EXISTS (SELECT FROM holdfast.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM holdfast.deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT FROM holdfast.cursors c WHERE c.stream = coalesce(e.stream, e.id) AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > $4))
LIMIT $5 FOR UPDATE OF e SKIP LOCKED;

-- name: prune_event
-- Looked at once more under the lock: an operator may just have sent it to the router again.
DELETE FROM holdfast.events e WHERE e.n = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM holdfast.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM holdfast.deliveries d WHERE d.event = e.n)
RETURNING e.n, e.stream;

-- name: prune_unmatched
DELETE FROM holdfast.unmatched WHERE event = ANY ($1::bigint[]);

-- name: stream_emptied
-- A stream that is being appended to is locked, and not empty for long: nobody waits for it.
UPDATE holdfast.streams SET emptied_at = $1 WHERE id IN (
  SELECT s.id FROM holdfast.streams s
  WHERE s.id = ANY ($2::text[]) AND NOT EXISTS (SELECT FROM holdfast.events e WHERE e.stream = s.id)
  ORDER BY s.id FOR UPDATE SKIP LOCKED);

-- name: streams_emptied
-- Those that have been empty for long, as far as is known, locked against appends. Each one leaves this list.
SELECT id FROM holdfast.streams WHERE emptied_at < $1 ORDER BY emptied_at LIMIT $2 FOR UPDATE SKIP LOCKED;

-- name: streams_refilled
UPDATE holdfast.streams s SET emptied_at = NULL
WHERE s.id = ANY ($1::text[]) AND EXISTS (SELECT FROM holdfast.events e WHERE e.stream = s.id);

-- name: streams_pinned
-- A reader or a session still refers to it: look again after another period.
UPDATE holdfast.streams s SET emptied_at = $2
WHERE s.id = ANY ($1::text[]) AND s.emptied_at IS NOT NULL
  AND (EXISTS (SELECT FROM holdfast.cursors c WHERE c.stream = s.id)
       OR EXISTS (SELECT FROM holdfast.sessions t WHERE t.id = substr(s.id, 9) AND s.id = 'session:' || t.id));

-- name: prune_streams
DELETE FROM holdfast.streams WHERE id = ANY ($1::text[]) AND emptied_at < $2;

-- name: sessions_old
-- Sessions that have not changed for long, of which no event is left and for which no message waits.
SELECT s.id FROM holdfast.sessions s
WHERE s.updated_at < $1
  AND NOT EXISTS (SELECT FROM holdfast.events e WHERE e.stream = 'session:' || s.id)
  AND NOT EXISTS (SELECT FROM holdfast.lanes l WHERE l.key = 'session:' || s.id AND l.open > 0)
ORDER BY s.updated_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED;

-- name: prune_sessions
-- Looked at once more under the lock: a hook may just have come.
DELETE FROM holdfast.sessions s WHERE s.id = ANY ($1::text[]) AND s.updated_at < $2
  AND NOT EXISTS (SELECT FROM holdfast.events e WHERE e.stream = 'session:' || s.id)
RETURNING s.id;

-- name: prune_bookmarks
DELETE FROM holdfast.bookmarks WHERE session = ANY ($1::text[]);

-- name: prune_dedup
DELETE FROM holdfast.dedup WHERE (source, key) IN (
  SELECT source, key FROM holdfast.dedup WHERE created_at < $1 ORDER BY created_at LIMIT $2);

-- name: prune_inbox
DELETE FROM holdfast.inbox WHERE (consumer, event_id) IN (
  SELECT consumer, event_id FROM holdfast.inbox WHERE handled_at < $1 ORDER BY handled_at LIMIT $2);

-- name: prune_lanes
DELETE FROM holdfast.lanes WHERE id IN (
  SELECT l.id FROM holdfast.lanes l WHERE l.open = 0 AND NOT l.paused
    AND NOT EXISTS (SELECT FROM holdfast.deliveries d WHERE d.lane = l.id AND d.pos > 0)
  LIMIT $1 FOR UPDATE OF l SKIP LOCKED);

-- name: check_settings
SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit');

-- name: check_indexes
-- Indexes of our schema that a failed rebuild left behind unusable.
SELECT i.indexrelid::regclass::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
WHERE NOT i.indisvalid AND c.relnamespace = (
  SELECT m.relnamespace FROM pg_catalog.pg_class m WHERE m.oid = 'holdfast.meta'::regclass);
