-- The door of a SQLite file, as an application's own connection uses it. Parameters are written `?` here and
-- replaced by the driver's own placeholders when the statement is built.

-- name: sqlite_inbox_add
INSERT INTO holdfast_inbox (consumer, event_id, handled_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1;

-- name: sqlite_inbox_forget
DELETE FROM holdfast_inbox WHERE consumer = ? AND event_id = ?;

-- name: sqlite_append_expected
-- Appends only if the stream is where the caller expects it, or if the dedup key was used before.
INSERT INTO holdfast_publish
  (id, type, payload, source, stream, timestamp, properties, dedup_key, "to", not_before, accepted_at, digest)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE coalesce((SELECT head FROM holdfast_streams WHERE id = ?), 0) = ? - 1
   OR EXISTS (SELECT 1 FROM holdfast_dedup WHERE source = ? AND key = ?);

-- name: sqlite_appended
SELECT id, stream, seq FROM holdfast_events WHERE id = ?;

-- name: sqlite_stream_head
SELECT head FROM holdfast_streams WHERE id = ?;

-- name: sqlite_stream_close
UPDATE holdfast_streams SET closed_at = ? WHERE id = ? AND closed_at IS NULL;

-- name: sqlite_cursor_ensure
INSERT INTO holdfast_cursors (reader, stream, position, updated_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: sqlite_cursor_get
SELECT reader, stream, position, updated_at FROM holdfast_cursors WHERE reader = ? AND stream = ?;

-- name: sqlite_cursor_advance
UPDATE holdfast_cursors SET position = ?, updated_at = ?, expires_at = NULL
WHERE reader = ? AND stream = ? AND position BETWEEN ? AND ?
RETURNING position;
