-- name: queue_hold
-- No other process counts or leases rows of these queues until this transaction ends.
SELECT FROM {schema}.queues WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: delivery_end
-- Only deliveries that have not ended meanwhile.
UPDATE {schema}.deliveries d
SET state = w.state, reason = w.reason, attempts = coalesce(w.attempts, d.attempts), settled_at = $6,
    survivor = w.survivor, handed_until = NULL, pos = -abs(d.pos),
    last_error = CASE WHEN w.state = 'dropped' THEN coalesce(w.error, d.last_error) ELSE w.error END
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $7::bigint[])
  w(id, state, reason, attempts, error, survivor)
WHERE d.id = w.id AND d.state = $8 RETURNING d.id, d.lane, d.generation, d.attempts;

-- name: delivery_wait
UPDATE {schema}.deliveries d SET attempts = w.attempts, last_error = w.error, handed_until = w.handed_until
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[]) w(id, attempts, error, handed_until)
WHERE d.id = w.id;

-- name: lane_leave
WITH left_by AS (
  SELECT l.id, w.fewer FROM {schema}.lanes l JOIN unnest($1::bigint[], $2::bigint[]) w(lane, fewer) ON w.lane = l.id
  ORDER BY l.key FOR UPDATE OF l
)
UPDATE {schema}.lanes l SET open = l.open - left_by.fewer
FROM left_by WHERE l.id = left_by.id RETURNING l.id, l.open, l.paused;

-- name: attempt_add
INSERT INTO {schema}.attempts (delivery, generation, attempt, started_at, ended_at, outcome, error, detail)
SELECT w.delivery, w.generation, w.attempt, w.started_at, $5, w.outcome, w.error, w.detail
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
  w(delivery, generation, attempt, started_at, outcome, error, detail, ord) ORDER BY w.ord;

-- name: attempt_trim
DELETE FROM {schema}.attempts a WHERE a.delivery = ANY ($1::bigint[]) AND a.id < (
  SELECT k.id FROM {schema}.attempts k WHERE k.delivery = a.delivery ORDER BY k.id DESC OFFSET $2 - 1 LIMIT 1);

-- name: first_in_lane
SELECT d.id FROM {schema}.lanes l JOIN {schema}.deliveries d ON d.lane = l.id
WHERE l.key = $1 AND d.pos > 0 ORDER BY d.pos LIMIT 1;

-- name: handed_make_due
UPDATE {schema}.deliveries SET handed_until = $1 WHERE id = $2 AND handed_until > $1;
