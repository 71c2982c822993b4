-- The door of a SQLite file, as an application's own connection uses it. Parameters are written `?` here; each
-- driver's own way of writing them is put in when the statement is built.

-- name: sqlite_inbox_add
INSERT INTO holdfast_inbox (consumer, event_id, handled_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1;

-- name: sqlite_inbox_forget
DELETE FROM holdfast_inbox WHERE consumer = ? AND event_id = ?;
