-- name: prune_deliveries
-- Ended deliveries past their time, locked so that nobody begins them anew meanwhile. A dead one is kept longer than
-- the rest; messages for sessions shorter.
SELECT d.id FROM {schema}.deliveries d JOIN {schema}.queues q ON q.id = d.queue
WHERE d.id > $1 AND d.id <= $1 + $2 AND d.state <> 'pending'
  AND d.settled_at < CASE WHEN d.state = 'dead' THEN $5 WHEN q.kind = 'session' THEN $4 ELSE $3::bigint END
LIMIT $6 FOR UPDATE OF d SKIP LOCKED;

-- name: prune_delivery
DELETE FROM {schema}.deliveries WHERE id = ANY ($1::bigint[]);

-- name: prune_attempts
DELETE FROM {schema}.attempts WHERE delivery = ANY ($1::bigint[]);

-- name: prune_span
SELECT (SELECT coalesce(min(id), 0) FROM {schema}.deliveries), (SELECT coalesce(max(id), 0) FROM {schema}.deliveries),
       (SELECT coalesce(min(n), 0) FROM {schema}.events), (SELECT coalesce(max(n), 0) FROM {schema}.events);

-- name: prune_events
-- Never an event that waits for the router, still has a delivery, or that a live reader has not passed.
SELECT e.n FROM {schema}.events e
WHERE e.n > $1 AND e.n <= $1 + $2 AND e.accepted_at < $3
  AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.cursors c WHERE c.stream = coalesce(e.stream, e.id) AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > $4))
LIMIT $5 FOR UPDATE OF e SKIP LOCKED;

-- name: prune_event
-- Looked at once more under the lock: an operator may just have sent it to the router again.
DELETE FROM {schema}.events e WHERE e.n = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.event = e.n)
RETURNING e.n, e.stream;

-- name: prune_unmatched
DELETE FROM {schema}.unmatched WHERE event = ANY ($1::bigint[]);

-- name: stream_emptied
-- A stream that is being appended to is locked, and not empty for long: nobody waits for it.
UPDATE {schema}.streams SET emptied_at = $1 WHERE id IN (
  SELECT s.id FROM {schema}.streams s
  WHERE s.id = ANY ($2::text[]) AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = s.id)
  ORDER BY s.id FOR UPDATE SKIP LOCKED);

-- name: streams_emptied
-- Those that have been empty for long, as far as is known, locked against appends. Each one leaves this list.
SELECT id FROM {schema}.streams WHERE emptied_at < $1 ORDER BY emptied_at LIMIT $2 FOR UPDATE SKIP LOCKED;

-- name: streams_refilled
UPDATE {schema}.streams s SET emptied_at = NULL
WHERE s.id = ANY ($1::text[]) AND EXISTS (SELECT FROM {schema}.events e WHERE e.stream = s.id);

-- name: streams_pinned
-- A reader or a session still refers to it: look again after another period.
UPDATE {schema}.streams s SET emptied_at = $2
WHERE s.id = ANY ($1::text[]) AND s.emptied_at IS NOT NULL
  AND (EXISTS (SELECT FROM {schema}.cursors c WHERE c.stream = s.id)
       OR EXISTS (SELECT FROM {schema}.sessions t WHERE t.id = substr(s.id, 9) AND s.id = 'session:' || t.id));

-- name: prune_streams
DELETE FROM {schema}.streams WHERE id = ANY ($1::text[]) AND emptied_at < $2;

-- name: sessions_old
-- Sessions that have not changed for long, of which no event is left and for which no message waits.
SELECT s.id FROM {schema}.sessions s
WHERE s.updated_at < $1
  AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = 'session:' || s.id)
  AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.key = 'session:' || s.id AND l.open > 0)
ORDER BY s.updated_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED;

-- name: prune_sessions
-- Looked at once more under the lock: a hook may just have come.
DELETE FROM {schema}.sessions s WHERE s.id = ANY ($1::text[]) AND s.updated_at < $2
  AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = 'session:' || s.id)
RETURNING s.id;

-- name: prune_bookmarks
DELETE FROM {schema}.bookmarks WHERE session = ANY ($1::text[]);

-- name: prune_dedup
DELETE FROM {schema}.dedup WHERE (source, key) IN (
  SELECT source, key FROM {schema}.dedup WHERE created_at < $1 ORDER BY created_at LIMIT $2);

-- name: prune_inbox
DELETE FROM {schema}.inbox WHERE (consumer, event_id) IN (
  SELECT consumer, event_id FROM {schema}.inbox WHERE handled_at < $1 ORDER BY handled_at LIMIT $2);

-- name: prune_lanes
DELETE FROM {schema}.lanes WHERE id IN (
  SELECT l.id FROM {schema}.lanes l WHERE l.open = 0 AND NOT l.paused
    AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.lane = l.id AND d.pos > 0)
  LIMIT $1 FOR UPDATE OF l SKIP LOCKED);

-- name: check_settings
SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit');

-- name: check_indexes
-- Indexes of our schema that a failed rebuild left behind unusable.
SELECT i.indexrelid::regclass::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
WHERE NOT i.indisvalid AND c.relnamespace = (
  SELECT m.relnamespace FROM pg_catalog.pg_class m WHERE m.oid = '{schema}.meta'::regclass);
