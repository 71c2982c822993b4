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
RETURNING e.n;

-- name: prune_unmatched
DELETE FROM holdfast.unmatched WHERE event = ANY ($1::bigint[]);

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
