-- The door of a PostgreSQL database, as an application's own connection uses it. Parameters are written `?` here, and
-- cast, because some drivers send them without a type. Id and time of acceptance are left to the database. The `...` of
-- publish stands for the named arguments that the event has. Every statement returns rows, even if there are none: in
-- pipeline mode a driver waits for a statement only when it fetches its rows.

-- name: postgres_publish
SELECT id, duplicate FROM {schema}.publish(...);

-- name: postgres_inbox_add
INSERT INTO {schema}.inbox (consumer, event_id, handled_at) VALUES (?::text, ?::text, ?::bigint)
ON CONFLICT DO NOTHING RETURNING 1;

-- name: postgres_inbox_forget
DELETE FROM {schema}.inbox WHERE consumer = ?::text AND event_id = ?::text RETURNING 1;

-- name: postgres_append
-- Refuses the event, and with it the transaction, if it is not the one that the caller expects.
SELECT p.id, p.stream, p.seq, p.duplicate,
       CASE WHEN NOT p.duplicate AND p.seq <> ?::bigint THEN {schema}.refuse('HF005', 'the stream has another head') END
FROM {schema}.publish(...) p;

-- name: postgres_stream_close
SELECT {schema}.close_stream(?::text);

-- name: postgres_cursor_ensure
INSERT INTO {schema}.cursors (reader, stream, position, updated_at) VALUES (?::text, ?::text, ?::bigint, ?::bigint)
ON CONFLICT DO NOTHING RETURNING 1;

-- name: postgres_cursor_get
SELECT reader, stream, position, updated_at FROM {schema}.cursors WHERE reader = ?::text AND stream = ?::text;

-- name: postgres_cursor_advance
UPDATE {schema}.cursors SET position = ?::bigint, updated_at = ?::bigint, expires_at = NULL
WHERE reader = ?::text AND stream = ?::text AND position BETWEEN ?::bigint AND ?::bigint
RETURNING position;
