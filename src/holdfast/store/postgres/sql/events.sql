-- name: event_append
-- One statement is one transaction and one round trip. It is on disk when it returns, whatever the role's defaults are.
SELECT id, stream, seq, duplicate
FROM set_config('synchronous_commit', 'on', true),
     {schema}.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: event_append_many
SELECT id, stream, seq, duplicate
FROM set_config('synchronous_commit', 'on', true),
     {schema}.accept_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ORDER BY ord;

-- name: event_append_plain
-- Events of this process without key and stream, written as the door would write them; their names were checked already.
-- Payloads are an array. Short values are the lines of one text, which costs the driver far less than an array; a value
-- that is the same for all events is one line.
WITH added AS (
  INSERT INTO {schema}.events (id, type, payload, source, timestamp, properties, accepted_at)
  SELECT f.id, coalesce(f.type, $2), f.payload, coalesce(f.source, $4), coalesce(f.timestamp, $5),
         coalesce(f.properties, $6), $7
  FROM unnest(string_to_array($1, E'\n'), CASE WHEN strpos($2, E'\n') > 0 THEN string_to_array($2, E'\n') END,
              {schema}.checked_json($3::text[]), CASE WHEN strpos($4, E'\n') > 0 THEN string_to_array($4, E'\n') END,
              CASE WHEN strpos($5, E'\n') > 0 THEN string_to_array($5, E'\n') END,
              {schema}.checked_json(CASE WHEN $6 <> '{}' THEN string_to_array($6, E'\n') END)) WITH ORDINALITY
    f(id, type, payload, source, timestamp, properties, ord) ORDER BY f.ord
  RETURNING n
), waiting AS (
  INSERT INTO {schema}.unrouted (event) SELECT n FROM added RETURNING event
)
SELECT CASE WHEN $8 THEN {schema}.ring(min(event)) END FROM set_config('synchronous_commit', 'on', true), waiting;

-- name: event_append_one
-- The same for one event: nothing has to be split or sorted.
WITH added AS (
  INSERT INTO {schema}.events (id, type, payload, source, timestamp, properties, accepted_at)
  SELECT $1::text, $2::text, CASE WHEN {schema}.is_json($3) THEN $3 ELSE {schema}.checked_json($3) END, $4::text, $5::text,
         CASE WHEN $6 = '{}' OR {schema}.is_json($6) THEN $6 ELSE {schema}.checked_json($6) END, $7::bigint
  RETURNING n
), waiting AS (
  INSERT INTO {schema}.unrouted AS w (event) SELECT n FROM added
  RETURNING CASE WHEN $8 AND (SELECT u.event FROM {schema}.unrouted u WHERE u.event < w.event AND u.event >= w.event - 200
                              ORDER BY u.event DESC LIMIT 1) IS NULL
            THEN pg_notify('holdfast_events', '') END
)
SELECT FROM set_config('synchronous_commit', 'on', true), waiting;

-- name: event_first
SELECT event_id, stream, seq FROM {schema}.dedup WHERE source = $1 AND key = $2;

-- name: event_get
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM {schema}.events WHERE id = $1;

-- name: event_prefix
SELECT id FROM {schema}.events WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2;

-- name: event_page
-- Without the bodies, which may be large; their size is read without them. The bodies of a page are read afterwards. Only
-- a search needs the properties of every row.
SELECT n, id, stream, seq, source, type, octet_length(properties) + octet_length(payload),
       CASE WHEN $3::boolean THEN properties END
FROM {schema}.events WHERE n < $1 ORDER BY n DESC LIMIT $2;

-- name: event_page_unmatched
SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, octet_length(e.properties) + octet_length(e.payload),
       CASE WHEN $3::boolean THEN e.properties END
FROM {schema}.unmatched u JOIN {schema}.events e ON e.n = u.event WHERE u.event < $1 ORDER BY u.event DESC LIMIT $2;

-- name: event_page_stream
SELECT n, id, stream, seq, source, type, octet_length(properties) + octet_length(payload),
       CASE WHEN $4::boolean THEN properties END
FROM {schema}.events WHERE stream = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3;

-- name: event_whole
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM {schema}.events WHERE n = ANY ($1::bigint[]);

-- name: stream_read
-- Up to the event at which the sum of the sizes reaches the limit. Sizes are read without the bodies.
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM (
  SELECT *, sum(octet_length(properties) + octet_length(payload))
              OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM {schema}.events WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3) page
) measured WHERE coalesce(before, 0) < $4 ORDER BY seq;

-- name: stream_read_many
-- The same for several streams at once.
SELECT w.ord, e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, e.payload, e.address
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY w(stream, after, ord) CROSS JOIN LATERAL (
  SELECT *, sum(octet_length(properties) + octet_length(payload))
              OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM {schema}.events WHERE stream = w.stream AND seq > w.after ORDER BY seq LIMIT $3) page) e
WHERE coalesce(e.before, 0) < $4 ORDER BY w.ord, e.seq;

-- name: stream_first
SELECT seq FROM {schema}.events WHERE stream = $1 ORDER BY seq LIMIT 1;

-- name: stream_get
SELECT id, head, created_at, closed_at FROM {schema}.streams WHERE id = $1;

-- name: stream_page
SELECT id, head, created_at, closed_at FROM {schema}.streams WHERE id > $1 ORDER BY id LIMIT $2;

-- name: event_reroute
-- The event's own row is locked too: retention removes no event that is locked.
WITH kept AS (
  SELECT e.n FROM {schema}.events e WHERE e.id = ANY ($1::text[]) ORDER BY e.n FOR KEY SHARE
), taken AS (
  DELETE FROM {schema}.unmatched u USING kept WHERE u.event = kept.n RETURNING u.event
), uncounted AS (
  UPDATE {schema}.counts SET events = events - (SELECT count(*) FROM taken),
    unmatched = unmatched - (SELECT count(*) FROM taken),
    streams = streams - (SELECT count(*) FROM taken JOIN {schema}.events e ON e.n = taken.event
                         WHERE e.seq = 1 AND e.stream IS NOT NULL)
  WHERE EXISTS (SELECT FROM taken)
)
INSERT INTO {schema}.unrouted (event) SELECT event FROM taken ON CONFLICT DO NOTHING;
