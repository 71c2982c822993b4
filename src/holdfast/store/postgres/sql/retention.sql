-- name: prune_deliveries
-- Ended deliveries past their time, locked so that none of them is requeued meanwhile. Dead ones are kept longer than the
-- rest, messages for sessions shorter.
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
-- Never an event that waits for the router, still has a delivery, or that a live reader has not passed; with $6, of a
-- stream only what is in an archive.
SELECT e.n, e.stream, e.seq FROM {schema}.events e
WHERE e.n > $1 AND e.n <= $1 + $2 AND e.accepted_at < $3
  AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.cursors c WHERE c.stream = coalesce(e.stream, e.id) AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > $4))
  AND (NOT $6 OR e.stream IS NULL OR e.seq <= (SELECT s.archived FROM {schema}.streams s WHERE s.id = e.stream))
ORDER BY e.n LIMIT $5 FOR UPDATE OF e SKIP LOCKED;

-- name: streams_first
-- The first stored event of each of these streams.
SELECT s.stream, (SELECT e.seq FROM {schema}.events e WHERE e.stream = s.stream ORDER BY e.seq LIMIT 1)
FROM unnest($1::text[]) s(stream);

-- name: archive_candidates
-- Events of streams that could be pruned and are in no archive.
SELECT e.n, e.stream, e.seq FROM {schema}.events e JOIN {schema}.streams s ON s.id = e.stream
WHERE e.n > $1 AND e.n <= $1 + $2 AND e.accepted_at < $3 AND e.seq > s.archived
  AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.cursors c WHERE c.stream = e.stream AND c.position < e.seq
                  AND (c.expires_at IS NULL OR c.expires_at > $4))
ORDER BY e.n LIMIT $5;

-- name: archive_span
SELECT coalesce(min(n), 0), coalesce(max(n), 0) FROM {schema}.events;

-- name: archive_first
-- The first stored event of each of these streams that is in no archive.
SELECT s.id, (SELECT e.seq FROM {schema}.events e WHERE e.stream = s.id AND e.seq > s.archived ORDER BY e.seq LIMIT 1)
FROM {schema}.streams s WHERE s.id = ANY ($1::text[]);

-- name: archive_add
INSERT INTO {schema}.archives (id, events, bytes, sha256, created_at) VALUES ($1, $2, $3, $4, $5);

-- name: archived_add
INSERT INTO {schema}.archived (stream, first_seq, last_seq, archive)
SELECT w.stream, w.first_seq, w.last_seq, $4
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) w(stream, first_seq, last_seq);

-- name: stream_archived
-- Locked in sorted order. A stream that another process archived meanwhile is left out, and the caller sees the count.
UPDATE {schema}.streams s SET archived = w.last_seq
FROM (SELECT g.stream, g.first_seq, g.last_seq
      FROM unnest($1::text[], $2::bigint[], $3::bigint[]) g(stream, first_seq, last_seq)
      JOIN {schema}.streams l ON l.id = g.stream ORDER BY g.stream COLLATE "C" FOR UPDATE OF l) w
WHERE s.id = w.stream AND s.archived < w.first_seq;

-- name: archive_page
SELECT id, events, bytes, sha256, created_at FROM {schema}.archives WHERE id > $1 ORDER BY id LIMIT $2;

-- name: archived_of
SELECT stream, first_seq, last_seq, archive FROM {schema}.archived
WHERE stream = $1 AND last_seq > $2 ORDER BY first_seq LIMIT $3;

-- name: prune_event
-- Checked again under the lock: an operator may just have sent it to the router again.
DELETE FROM {schema}.events e WHERE e.n = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT FROM {schema}.unrouted u WHERE u.event = e.n)
  AND NOT EXISTS (SELECT FROM {schema}.deliveries d WHERE d.event = e.n)
RETURNING e.n, e.stream;

-- name: prune_unmatched
DELETE FROM {schema}.unmatched WHERE event = ANY ($1::bigint[]);

-- name: stream_emptied
-- A stream that is being appended to is locked and will not be empty, so it is skipped.
UPDATE {schema}.streams SET emptied_at = $1 WHERE id IN (
  SELECT s.id FROM {schema}.streams s
  WHERE s.id = ANY ($2::text[]) AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = s.id)
  ORDER BY s.id FOR UPDATE SKIP LOCKED);

-- name: streams_emptied
-- Streams that were empty for a whole period when last checked, locked against appends. Each is checked again and leaves
-- this list.
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
-- Sessions that have not changed for the retention time, without stored events and pending messages.
SELECT s.id FROM {schema}.sessions s
WHERE s.updated_at < $1
  AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = 'session:' || s.id)
  AND NOT EXISTS (SELECT FROM {schema}.lanes l WHERE l.key = 'session:' || s.id AND l.open > 0)
ORDER BY s.updated_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED;

-- name: prune_sessions
-- Checked again under the lock: a hook event may just have arrived.
DELETE FROM {schema}.sessions s WHERE s.id = ANY ($1::text[]) AND s.updated_at < $2
  AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.stream = 'session:' || s.id)
RETURNING s.id;

-- name: prune_bookmarks
DELETE FROM {schema}.bookmarks WHERE session = ANY ($1::text[]);

-- name: prune_bindings
DELETE FROM {schema}.bindings WHERE session = ANY ($1::text[]);

-- name: prune_blobs
DELETE FROM {schema}.blobs WHERE sha256 IN (
  SELECT sha256 FROM {schema}.blobs WHERE created_at < $1 ORDER BY created_at LIMIT $2);

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

-- name: replication
-- Whether commits wait for a standby; and for each standby its name and its use, which a role without the rights of
-- pg_monitor does not see. At least one row.
SELECT current_setting('synchronous_standby_names') <> '', r.pid, r.application_name, r.sync_state
FROM (VALUES (1)) one(n) LEFT JOIN pg_catalog.pg_stat_replication r ON coalesce(r.state, 'streaming') = 'streaming';

-- name: check_indexes
-- Indexes of our schema that a failed rebuild left behind unusable.
SELECT i.indexrelid::regclass::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
WHERE NOT i.indisvalid AND c.relnamespace = (
  SELECT m.relnamespace FROM pg_catalog.pg_class m WHERE m.oid = '{schema}.meta'::regclass);

-- name: store_size
SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = (
  SELECT m.relnamespace FROM pg_catalog.pg_class m WHERE m.oid = '{schema}.meta'::regclass);
