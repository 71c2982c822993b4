-- name: unrouted_take
SELECT * FROM {schema}.take_unrouted($1);

-- name: unrouted_first
SELECT event FROM {schema}.unrouted ORDER BY event LIMIT 1;

-- name: unrouted_done
DELETE FROM {schema}.unrouted WHERE event = ANY ($1::bigint[]) RETURNING event;

-- name: unrouted_count
SELECT count(*) FROM {schema}.unrouted;

-- name: unmatched_add
INSERT INTO {schema}.unmatched (event) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING;

-- name: route_plain
-- A whole batch whose deliveries all go to known queues and stand in no lane, in one statement. Nobody changes a contract
-- until the router has committed; if one was changed before ($1 is another version), nothing is done.
WITH held AS MATERIALIZED (
  SELECT value::bigint AS version FROM {schema}.meta WHERE key = 'contracts_version' FOR SHARE
), gone AS (
  DELETE FROM {schema}.unrouted WHERE event = ANY ($2::bigint[]) AND (SELECT version FROM held) = $1 RETURNING event
), unmatched AS (
  INSERT INTO {schema}.unmatched (event) SELECT gone.event FROM gone JOIN unnest($3::bigint[]) w(event) USING (event)
  ON CONFLICT DO NOTHING RETURNING event
), counted AS (
  UPDATE {schema}.counts SET events = events + (SELECT count(*) FROM gone),
    unmatched = unmatched + (SELECT count(*) FROM unmatched),
    streams = streams + (SELECT count(*) FROM gone JOIN unnest($8::bigint[]) w(event) USING (event))
), wanted AS (
  SELECT w.event, w.queue, w.due_at, w.ord
  FROM unnest($4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY w(event, queue, due_at, ord)
  JOIN gone USING (event)
), added AS (
  INSERT INTO {schema}.deliveries (event, queue, created_at) SELECT event, queue, $7 FROM wanted ORDER BY ord
  ON CONFLICT (event, queue) DO NOTHING RETURNING id, event, queue
), ready AS (
  INSERT INTO {schema}.ready (delivery, queue, due_at)
  SELECT a.id, a.queue, w.due_at FROM added a JOIN wanted w USING (event, queue) ORDER BY a.id
)
SELECT (SELECT version FROM held), (SELECT count(*) FROM added);

-- name: delivery_known
SELECT event, queue FROM {schema}.deliveries WHERE event = ANY ($1::bigint[]);

-- name: delivery_add
-- Deliveries, and a ready row for each that has a due time.
WITH wanted AS (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $7::text[])
    WITH ORDINALITY w(event, queue, lane, pos, due_at, burst, ord)
), added AS (
  INSERT INTO {schema}.deliveries (event, queue, lane, pos, created_at, burst)
  SELECT event, queue, lane, pos, $6, burst FROM wanted ORDER BY ord RETURNING id, event, queue
)
INSERT INTO {schema}.ready (delivery, queue, due_at)
SELECT a.id, a.queue, w.due_at FROM added a JOIN wanted w ON w.event = a.event AND w.queue = a.queue
WHERE w.due_at IS NOT NULL ORDER BY a.id;

-- name: lane_join
-- Lanes are always locked in the order of their keys. `paused` is read under the lock.
INSERT INTO {schema}.lanes AS l (key, tail, open, paused)
SELECT w.key, w.more, w.more, EXISTS (SELECT FROM {schema}.pauses p WHERE p.scope = 'lane' AND p.name = w.key)
FROM unnest($1::text[], $2::bigint[]) w(key, more) ORDER BY w.key COLLATE "C"
ON CONFLICT (key) DO UPDATE SET tail = l.tail + excluded.tail, open = l.open + excluded.open
RETURNING l.key, l.id, l.tail, l.open, l.paused;

-- name: ready_add
INSERT INTO {schema}.ready (delivery, queue, due_at) SELECT unnest($1::bigint[]), unnest($2::bigint[]), $3;

-- name: burst_new
SELECT id, lane, pos, burst FROM {schema}.deliveries WHERE event = ANY ($1::bigint[]) AND burst IS NOT NULL
ORDER BY lane, pos;

-- name: burst_behind
-- What waits just before a place in a lane, nearest first.
SELECT d.id, d.burst, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.lane = $1 AND d.pos > 0 AND d.pos < $2 ORDER BY d.pos DESC LIMIT $3;

-- name: burst_oldest
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.lane = $1 AND d.pos > 0 AND d.burst IS NOT NULL ORDER BY d.pos LIMIT $2;

-- name: burst_ready
SELECT delivery FROM {schema}.ready WHERE delivery = ANY ($1::bigint[]);

-- name: burst_free
-- Those of them that nobody carries and nobody is about to. We never wait here: we hold their lane already.
SELECT delivery FROM {schema}.ready WHERE delivery = ANY ($1::bigint[]) AND token IS NULL FOR UPDATE SKIP LOCKED;
