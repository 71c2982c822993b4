-- name: event_append
-- One statement is one transaction and one round trip: whatever a role's defaults are, it is on disk when it answers.
SELECT id, stream, seq, duplicate
FROM set_config('synchronous_commit', 'on', true),
     {schema}.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: event_append_many
SELECT id, stream, seq, duplicate
FROM set_config('synchronous_commit', 'on', true),
     {schema}.accept_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ORDER BY ord;

-- name: event_append_plain
-- As the door would write them: events of this process, which has checked their names, and for which the door has nothing
-- to look for. Payloads come one by one; what is short comes as lines of one text, which costs the driver far less, and
-- what is the same for all as one line.
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
-- The same for one alone: nothing to split, to sort or to count.
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

-- name: event_get
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM {schema}.events WHERE id = $1;

-- name: event_page
-- Pages look at what is small first: how large a body is costs nothing to ask, and whoever does not want it never gets it.
SELECT n, id, stream, seq, source, type, octet_length(properties) + octet_length(payload)
FROM {schema}.events WHERE n < $1 ORDER BY n DESC LIMIT $2;

-- name: event_page_unmatched
SELECT e.n, e.id, e.stream, e.seq, e.source, e.type, octet_length(e.properties) + octet_length(e.payload)
FROM {schema}.unmatched u JOIN {schema}.events e ON e.n = u.event WHERE u.event < $1 ORDER BY u.event DESC LIMIT $2;

-- name: event_page_stream
SELECT n, id, stream, seq, source, type, octet_length(properties) + octet_length(payload)
FROM {schema}.events WHERE stream = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3;

-- name: event_whole
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM {schema}.events WHERE n = ANY ($1::bigint[]);

-- name: stream_read
-- Up to the one that reaches so many bytes; the sizes are known without reading the bodies.
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM (
  SELECT *, sum(octet_length(properties) + octet_length(payload))
              OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM {schema}.events WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT $3) page
) measured WHERE coalesce(before, 0) < $4 ORDER BY seq;

-- name: stream_get
SELECT id, head, created_at, closed_at FROM {schema}.streams WHERE id = $1;

-- name: stream_page
SELECT id, head, created_at, closed_at FROM {schema}.streams WHERE id > $1 ORDER BY id LIMIT $2;

-- name: event_reroute
-- The event's own row is locked too: retention looks for whoever waits for it before it removes it.
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
