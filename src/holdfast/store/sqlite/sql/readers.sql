-- name: cursor_ensure
INSERT INTO holdfast_cursors (reader, stream, position, updated_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: cursor_get
SELECT reader, stream, position, updated_at FROM holdfast_cursors WHERE reader = ? AND stream = ?;

-- name: cursor_advance
UPDATE holdfast_cursors SET position = ?3, updated_at = ?4, expires_at = NULL
WHERE reader = ?1 AND stream = ?2 AND position <= ?3;

-- name: cursor_begin
-- Before the first stored event, or before the first new one.
INSERT INTO holdfast_cursors (reader, stream, position, updated_at)
SELECT ?1, ?2, CASE WHEN r.start = 'now' THEN ?3 - 1
               ELSE coalesce((SELECT min(e.seq) FROM holdfast_events e WHERE e.stream = ?2) - 1, ?4) END, ?5
FROM holdfast_readers r WHERE r.name = ?1
ON CONFLICT DO NOTHING;

-- name: cursors_of_stream
SELECT c.reader, c.stream, c.position, c.updated_at, c.expires_at, coalesce(l.failures, 0), l.error
FROM holdfast_cursors c LEFT JOIN holdfast_lagging l ON l.reader = c.reader AND l.stream = c.stream
WHERE c.stream = ? ORDER BY c.reader LIMIT ?;

-- name: cursors_idle
-- Those that have not moved although an event was there to be read all the time.
SELECT c.reader, c.stream, c.position, c.updated_at
FROM holdfast_cursors c JOIN holdfast_streams s ON s.id = c.stream
WHERE c.expires_at IS NULL AND c.updated_at < ?1 AND c.position < s.head
  AND (SELECT e.accepted_at FROM holdfast_events e WHERE e.stream = c.stream AND e.seq > c.position
       ORDER BY e.seq LIMIT 1) < ?1
LIMIT ?2;

-- name: cursor_expire
UPDATE holdfast_cursors SET expires_at = ?1 WHERE reader = ?2 AND stream = ?3;

-- name: reader_put
INSERT INTO holdfast_readers (name, pattern, start, surveyed, active, seen_at) VALUES (?1, ?2, ?3, ?4, 1, ?5)
ON CONFLICT (name) DO UPDATE
SET pattern = ?2, start = ?3, surveyed = ?4, active = 1, seen_at = ?5;

-- name: reader_seen
UPDATE holdfast_readers SET seen_at = ?1 WHERE name = ?2;

-- name: reader_end
UPDATE holdfast_readers SET active = 0 WHERE name = ?;

-- name: reader_all
SELECT name, pattern, start, surveyed FROM holdfast_readers WHERE active = 1 ORDER BY name;

-- name: reader_unseen
SELECT name FROM holdfast_readers WHERE active = 1 AND seen_at < ?;

-- name: reader_surveyed
UPDATE holdfast_readers SET surveyed = ?1 WHERE name = ?2;

-- name: reader_states
SELECT r.name, r.pattern, r.start, r.active, r.seen_at, count(l.stream),
       coalesce(sum(max(l.head - c.position, 0)), 0), coalesce(sum(l.failures > 0), 0), max(l.error),
       (SELECT count(*) FROM holdfast_cursors x WHERE x.reader = r.name AND x.expires_at IS NOT NULL)
FROM holdfast_readers r
LEFT JOIN holdfast_lagging l ON l.reader = r.name
LEFT JOIN holdfast_cursors c ON c.reader = l.reader AND c.stream = l.stream
GROUP BY r.name ORDER BY r.name;

-- name: reader_oldest
-- `since` is at most the time of the first unread event, so the oldest one is among those with the earliest.
SELECT min(e.accepted_at)
FROM (SELECT stream FROM holdfast_lagging WHERE reader = ?1 ORDER BY since LIMIT 100) l
JOIN holdfast_cursors c ON c.reader = ?1 AND c.stream = l.stream
JOIN holdfast_events e ON e.stream = l.stream AND e.seq = c.position + 1;

-- name: survey_page
SELECT s.id, s.head, coalesce((SELECT e.accepted_at FROM holdfast_events e WHERE e.stream = s.id ORDER BY e.seq LIMIT 1),
                              s.created_at)
FROM holdfast_streams s WHERE s.id > ?1 AND s.id >= ?2 ORDER BY s.id LIMIT ?3;

-- name: lagging_mark
INSERT INTO holdfast_lagging (reader, stream, head, since, due_at)
SELECT reader, stream, ?3, ?4, ?5 FROM holdfast_cursors WHERE reader = ?1 AND stream = ?2 AND position < ?3
ON CONFLICT (reader, stream) DO UPDATE SET head = max(head, excluded.head);

-- name: lagging_claim
UPDATE holdfast_lagging SET owner = ?1, token = ?2, lease_until = ?3
WHERE reader = ?4 AND stream IN (
  SELECT stream FROM holdfast_lagging WHERE reader = ?4 AND token IS NULL AND due_at <= ?5 ORDER BY due_at LIMIT ?6);

-- name: lagging_leased
SELECT l.reader, l.stream, c.position, l.head, l.since, l.failures, l.alarmed, l.token
FROM holdfast_lagging l JOIN holdfast_cursors c ON c.reader = l.reader AND c.stream = l.stream
WHERE l.token = ? ORDER BY l.due_at, l.stream;

-- name: lagging_held
SELECT head FROM holdfast_lagging WHERE reader = ? AND stream = ? AND token = ?;

-- name: lagging_done
DELETE FROM holdfast_lagging WHERE reader = ? AND stream = ?;

-- name: lagging_again
UPDATE holdfast_lagging SET owner = NULL, token = NULL, lease_until = NULL, since = ?3, due_at = ?4,
  failures = CASE WHEN ?5 IS NULL THEN 0 ELSE failures + 1 END, error = ?5, alarmed = ?6
WHERE reader = ?1 AND stream = ?2;

-- name: lagging_extend
UPDATE holdfast_lagging SET lease_until = ?1 WHERE reader = ?2 AND stream = ?3 AND token = ?4;

-- name: lagging_reclaim
-- A lease that ends far in the future was made before the clock was set back.
UPDATE holdfast_lagging SET owner = NULL, token = NULL, lease_until = NULL
WHERE token IS NOT NULL AND (lease_until NOT BETWEEN ?1 AND ?1 + 3600000 OR owner <> ?2);

-- name: lagging_next
SELECT min(due_at) FROM holdfast_lagging WHERE reader = ? AND token IS NULL;

-- name: lagging_forget
DELETE FROM holdfast_lagging WHERE reader = ?;
