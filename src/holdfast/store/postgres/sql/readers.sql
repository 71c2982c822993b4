-- name: cursor_ensure
INSERT INTO {schema}.cursors (reader, stream, position, updated_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;

-- name: cursor_get
SELECT reader, stream, position, updated_at FROM {schema}.cursors WHERE reader = $1 AND stream = $2;

-- name: cursor_advance
UPDATE {schema}.cursors SET position = $3, updated_at = $4, expires_at = NULL
WHERE reader = $1 AND stream = $2 AND position <= $3;

-- name: cursors_of_stream
SELECT c.reader, c.stream, c.position, c.updated_at, c.expires_at, coalesce(l.failures, 0), l.error
FROM {schema}.cursors c LEFT JOIN {schema}.lagging l ON l.reader = c.reader AND l.stream = c.stream
WHERE c.stream = $1 ORDER BY c.reader LIMIT $2;

-- name: cursors_expire
-- Those that have not moved although an event was there to be read all the time.
UPDATE {schema}.cursors c SET expires_at = $1
FROM (SELECT i.reader, i.stream FROM {schema}.cursors i JOIN {schema}.streams s ON s.id = i.stream
      WHERE i.expires_at IS NULL AND i.updated_at < $2 AND i.position < s.head
        AND (SELECT e.accepted_at FROM {schema}.events e WHERE e.stream = i.stream AND e.seq > i.position
             ORDER BY e.seq LIMIT 1) < $2
      ORDER BY i.reader, i.stream LIMIT $3 FOR UPDATE OF i SKIP LOCKED) idle
WHERE c.reader = idle.reader AND c.stream = idle.stream
RETURNING c.reader, c.stream, c.position, c.updated_at;

-- name: reader_put
INSERT INTO {schema}.readers AS r (name, pattern, start, surveyed, active, seen_at) VALUES ($1, $2, $3, $4, true, $5)
ON CONFLICT (name) DO UPDATE
SET pattern = excluded.pattern, start = excluded.start, surveyed = excluded.surveyed, active = true, seen_at = excluded.seen_at;

-- name: reader_seen
UPDATE {schema}.readers SET seen_at = $1 WHERE name = ANY ($2::text[]);

-- name: reader_end
UPDATE {schema}.readers SET active = false WHERE name = ANY ($1::text[]);

-- name: reader_all
SELECT name, pattern, start, surveyed FROM {schema}.readers WHERE active ORDER BY name;

-- name: reader_unseen
SELECT name FROM {schema}.readers WHERE active AND seen_at < $1 FOR UPDATE SKIP LOCKED;

-- name: reader_survey
-- Locked: one process at a time surveys for a reader.
SELECT pattern, start, surveyed FROM {schema}.readers
WHERE name = $1 AND active AND surveyed IS NOT NULL FOR UPDATE SKIP LOCKED;

-- name: reader_surveyed
UPDATE {schema}.readers SET surveyed = $1 WHERE name = $2;

-- name: reader_states
SELECT r.name, r.pattern, r.start, r.active, r.seen_at, count(l.stream),
       coalesce(sum(greatest(l.head - c.position, 0)), 0)::bigint, count(*) FILTER (WHERE l.failures > 0), max(l.error),
       (SELECT count(*) FROM {schema}.cursors x WHERE x.reader = r.name AND x.expires_at IS NOT NULL)
FROM {schema}.readers r
LEFT JOIN {schema}.lagging l ON l.reader = r.name
LEFT JOIN {schema}.cursors c ON c.reader = l.reader AND c.stream = l.stream
GROUP BY r.name ORDER BY r.name;

-- name: reader_oldest
-- `since` is at most the time of the first unread event, so the oldest one is among those with the earliest.
SELECT min(e.accepted_at)
FROM (SELECT stream FROM {schema}.lagging WHERE reader = $1 ORDER BY since LIMIT 100) l
JOIN {schema}.cursors c ON c.reader = $1 AND c.stream = l.stream
JOIN {schema}.events e ON e.stream = l.stream AND e.seq = c.position + 1;

-- name: survey_page
SELECT s.id, s.head, coalesce((SELECT e.accepted_at FROM {schema}.events e WHERE e.stream = s.id ORDER BY e.seq LIMIT 1),
                              s.created_at)
FROM {schema}.streams s WHERE s.id > $1 AND s.id >= $2 ORDER BY s.id LIMIT $3;

-- name: lagging_mark
-- A missing cursor begins before the first stored event, or before the first new one. Rows are locked in sorted order.
WITH given AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
    w(reader, stream, first_seq, head, since)
), begun AS (
  INSERT INTO {schema}.cursors (reader, stream, position, updated_at)
  SELECT w.reader, w.stream,
         CASE WHEN r.start = 'now' THEN w.first_seq - 1
              ELSE coalesce((SELECT e.seq FROM {schema}.events e WHERE e.stream = w.stream ORDER BY e.seq LIMIT 1) - 1,
                            w.head) END, $6
  FROM given w JOIN {schema}.readers r ON r.name = w.reader ORDER BY w.reader, w.stream
  ON CONFLICT DO NOTHING RETURNING reader, stream, position
)
INSERT INTO {schema}.lagging AS l (reader, stream, head, since, due_at)
SELECT w.reader, w.stream, w.head, w.since, $6
FROM given w JOIN {schema}.readers r ON r.name = w.reader
LEFT JOIN {schema}.cursors c ON c.reader = w.reader AND c.stream = w.stream
LEFT JOIN begun b ON b.reader = w.reader AND b.stream = w.stream
WHERE coalesce(b.position, c.position, -1) < w.head  -- neither is there while another process creates the cursor
ORDER BY w.reader, w.stream
ON CONFLICT (reader, stream) DO UPDATE SET head = greatest(l.head, excluded.head);

-- name: lagging_claim
WITH picked AS (
  SELECT l.reader, l.stream, l.due_at FROM {schema}.lagging l
  WHERE l.reader = $4 AND l.token IS NULL AND l.due_at <= $5 ORDER BY l.due_at LIMIT $6 FOR UPDATE SKIP LOCKED
), leased AS (
  UPDATE {schema}.lagging l SET owner = $1, token = $2, lease_until = $3
  FROM picked p WHERE l.reader = p.reader AND l.stream = p.stream
  RETURNING l.*
)
SELECT l.reader, l.stream, c.position, l.head, l.since, l.failures, l.alarmed, l.token
FROM set_config('synchronous_commit', 'off', true), leased l
JOIN {schema}.cursors c ON c.reader = l.reader AND c.stream = l.stream ORDER BY l.due_at, l.stream;

-- name: lagging_settle
-- Only where the token is still the same. A row that reached its head is deleted; any other is due again.
WITH given AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[],
                       $8::boolean[])
    w(reader, stream, token, position, since, due_at, error, alarmed)
), held AS (
  SELECT w.*, l.head FROM given w JOIN {schema}.lagging l ON l.reader = w.reader AND l.stream = w.stream
  WHERE l.token = w.token ORDER BY w.reader, w.stream FOR UPDATE OF l
), moved AS (
  UPDATE {schema}.cursors c SET position = h.position, updated_at = $9, expires_at = NULL
  FROM held h WHERE c.reader = h.reader AND c.stream = h.stream AND c.position < h.position
), done AS (
  DELETE FROM {schema}.lagging l USING held h
  WHERE l.reader = h.reader AND l.stream = h.stream AND h.error IS NULL AND h.head <= h.position
), again AS (
  UPDATE {schema}.lagging l SET owner = NULL, token = NULL, lease_until = NULL, since = h.since, due_at = h.due_at,
    failures = CASE WHEN h.error IS NULL THEN 0 ELSE l.failures + 1 END, error = h.error, alarmed = h.alarmed
  FROM held h
  WHERE l.reader = h.reader AND l.stream = h.stream AND NOT (h.error IS NULL AND h.head <= h.position)
)
SELECT reader, stream FROM set_config('synchronous_commit', 'off', true), held;

-- name: lagging_extend
UPDATE {schema}.lagging l SET lease_until = $1
FROM unnest($2::text[], $3::text[], $4::bigint[]) w(reader, stream, token)
WHERE l.reader = w.reader AND l.stream = w.stream AND l.token = w.token;

-- name: lagging_reclaim
UPDATE {schema}.lagging SET owner = NULL, token = NULL, lease_until = NULL
WHERE token IS NOT NULL
  AND (lease_until NOT BETWEEN $1 AND $1 + 3600000 OR (owner <> $2 AND owner NOT IN (SELECT {schema}.owners_alive())));

-- name: lagging_next
SELECT min(due_at) FROM {schema}.lagging WHERE reader = ANY ($1::text[]) AND token IS NULL;

-- name: lagging_forget
DELETE FROM {schema}.lagging WHERE reader = ANY ($1::text[]);
