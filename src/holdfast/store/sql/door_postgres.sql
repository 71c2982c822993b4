-- The door of a PostgreSQL database, as an application's own connection uses it. Parameters are written `?` here, and
-- cast, because some drivers send them without a type. Id and time of acceptance are left to the database. The `...` of
-- publish stands for what the event says, each by its name: what it does not say costs nothing on the way. Every statement
-- answers with rows, if only with none: in pipeline mode a driver knows nothing of it until it has asked for them.

-- name: postgres_publish
SELECT id, duplicate FROM {schema}.publish(...);

-- name: postgres_inbox_add
INSERT INTO {schema}.inbox (consumer, event_id, handled_at) VALUES (?::text, ?::text, ?::bigint)
ON CONFLICT DO NOTHING RETURNING 1;

-- name: postgres_inbox_forget
DELETE FROM {schema}.inbox WHERE consumer = ?::text AND event_id = ?::text RETURNING 1;
