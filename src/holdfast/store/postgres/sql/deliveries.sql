-- name: ready_queues
-- A loose index scan: one step for each queue that has unleased work, however much of it. A bounded page, begun after
-- the queue served last, so that many queues take turns. Held queues are in it, without a due time: a page that left
-- them out could be empty before the end. The column before the last says that there is something a short claim does not
-- see to: a lane held by name, or a delivery that is suspect. The last: how many may be under way, where several processes
-- share that number.
WITH RECURSIVE walk (id, steps) AS (
  SELECT (SELECT min(queue) FROM {schema}.ready WHERE token IS NULL AND queue > $1), 1
  UNION ALL
  SELECT (SELECT min(queue) FROM {schema}.ready WHERE token IS NULL AND queue > walk.id), steps + 1
  FROM walk WHERE walk.id IS NOT NULL AND steps < $2
)
SELECT q.id, q.contract, q.address, q.kind,
       CASE WHEN NOT q.paused AND NOT q.parked
            THEN (SELECT min(due_at) FROM {schema}.ready WHERE token IS NULL AND queue = q.id) END,
       EXISTS (SELECT FROM {schema}.pauses WHERE scope = 'lane')
         OR EXISTS (SELECT FROM {schema}.ready WHERE token IS NULL AND starts >= 2 AND queue = q.id),
       CASE WHEN (SELECT count(*) FROM (SELECT id FROM {schema}.owners WHERE ended_at IS NULL ORDER BY id LIMIT 2) o) > 1
            THEN (SELECT c.concurrency FROM {schema}.contracts c WHERE c.id = q.contract) END
FROM walk JOIN {schema}.queues q ON q.id = walk.id ORDER BY walk.steps;

-- name: ready_lease
-- What this token holds afterwards: what was leased just now, and what a try before whose answer was lost had leased.
SELECT * FROM {schema}.lease($1, $2, $3, $4, $5, $6, $7, $8);

-- name: queue_hold
-- Nobody else counts, or leases, of these queues until our transaction ends.
SELECT FROM {schema}.queues WHERE id = ANY($1::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: queue_leased
SELECT queue, count(*) FROM {schema}.ready WHERE token IS NOT NULL AND queue = ANY($1::bigint[]) GROUP BY queue;

-- name: paused_unready
-- The head of a paused lane may come back while it is held: failed, released, reclaimed, or its confirmation due.
DELETE FROM {schema}.ready WHERE token IS NULL AND delivery IN (
  SELECT (SELECT d.id FROM {schema}.deliveries d
          WHERE d.lane = l.id AND d.pos > 0 ORDER BY d.pos LIMIT 1)
  FROM {schema}.pauses p JOIN {schema}.lanes l ON l.key = p.name WHERE p.scope = 'lane');

-- name: suspect_queues
SELECT DISTINCT queue FROM {schema}.ready WHERE token IS NULL AND starts >= 2 AND due_at <= $1;

-- name: suspect_lease
WITH picked AS (
  SELECT delivery FROM {schema}.ready
  WHERE token IS NULL AND starts >= 2 AND queue = $5 AND due_at <= $6
  ORDER BY starts, due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.ready r
SET owner = $1, token = $2, lease_until = coalesce($3, {schema}.now_ms()) + $4, starts = r.starts + 1
FROM picked WHERE r.delivery = picked.delivery;

-- name: lease_renew
-- By the delivery, here and below: a whole batch has one token, so by that each lease would be compared with every other.
-- IS NOT DISTINCT FROM is an equality that no index serves.
UPDATE {schema}.ready r SET lease_until = coalesce($1, {schema}.now_ms()) + $2
FROM unnest($3::bigint[], $4::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING r.delivery;

-- name: lease_prolong
-- Everything one owner holds, while its event loop is too busy to renew lease by lease.
UPDATE {schema}.ready SET lease_until = greatest(lease_until, {schema}.now_ms() + $2) WHERE owner = $1;

-- name: lease_release
UPDATE {schema}.ready r SET owner = NULL, token = NULL, lease_until = NULL, starts = r.starts - 1
FROM unnest($1::bigint[], $2::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token;

-- name: lease_uncount
UPDATE {schema}.ready r SET starts = r.starts - 1
FROM unnest($1::bigint[], $2::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token;

-- name: lease_disown
-- What was taken under these tokens, and never came to be known.
UPDATE {schema}.ready SET owner = NULL, token = NULL, lease_until = NULL, starts = starts - 1
WHERE token = ANY ($1::bigint[]);

-- name: lease_reclaim
-- An owner that seemed gone may have come back a moment ago, so its lock is checked once more.
WITH alive AS MATERIALIZED (
  SELECT {schema}.owners_alive() AS id
), over AS (
  SELECT r.delivery FROM {schema}.ready r
  WHERE r.token IS NOT NULL
    AND ((r.lease_until < coalesce($1, {schema}.now_ms()) AND r.delivery <> ALL ($3::bigint[]))
         OR (r.owner = ANY ($2::bigint[]) AND r.owner NOT IN (SELECT id FROM alive)))
  FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.ready r SET owner = NULL, token = NULL, lease_until = NULL
FROM over WHERE r.delivery = over.delivery;

-- name: ready_end
DELETE FROM {schema}.ready r USING unnest($1::bigint[], $2::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING w.delivery, w.token;

-- name: ready_again
UPDATE {schema}.ready r SET owner = NULL, token = NULL, lease_until = NULL, starts = 0, due_at = w.due_at
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) w(delivery, token, due_at)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING w.delivery, w.token;

-- name: settle_delivered
-- Arrays as text: the driver takes longer to look at each number than both sides to write and read it.
SELECT {schema}.settle_delivered($1::text::bigint[], $2::text::bigint[], $3::text::integer[], $4, $5, $6, $7, $8, $9, $10);

-- name: delivery_end
-- Only what has not ended meanwhile by another hand.
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

-- name: lane_next
INSERT INTO {schema}.ready (delivery, queue, due_at)
SELECT head.id, head.queue, $2 FROM unnest($1::bigint[]) w(lane)
CROSS JOIN LATERAL (
  SELECT d.id, d.queue, d.handed_until FROM {schema}.deliveries d
  WHERE d.lane = w.lane AND d.pos > 0 ORDER BY d.pos LIMIT 1) head
WHERE head.handed_until IS NULL
ON CONFLICT DO NOTHING;

-- name: handed_due
-- The delivery's own row is locked, so that nobody ends it meanwhile.
WITH due AS (
  SELECT d.id, d.queue FROM {schema}.deliveries d WHERE d.handed_until IS NOT NULL AND d.handed_until <= $1
    AND NOT EXISTS (SELECT FROM {schema}.ready r WHERE r.delivery = d.id)
  ORDER BY d.handed_until LIMIT $2 FOR UPDATE SKIP LOCKED
)
INSERT INTO {schema}.ready (delivery, queue, due_at) SELECT id, queue, $1 FROM due ON CONFLICT DO NOTHING;

-- name: attempt_add
INSERT INTO {schema}.attempts (delivery, generation, attempt, started_at, ended_at, outcome, error, detail)
SELECT w.delivery, w.generation, w.attempt, w.started_at, $5, w.outcome, w.error, w.detail
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
  w(delivery, generation, attempt, started_at, outcome, error, detail, ord) ORDER BY w.ord;

-- name: attempt_trim
DELETE FROM {schema}.attempts a WHERE a.delivery = ANY ($1::bigint[]) AND a.id < (
  SELECT k.id FROM {schema}.attempts k WHERE k.delivery = a.delivery ORDER BY k.id DESC OFFSET $2 - 1 LIMIT 1);

-- name: removed_pending
-- What a removed contract still has waiting: what could be claimed, and whatever queues behind it in its lanes.
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.id IN (
  SELECT delivery FROM {schema}.ready WHERE token IS NULL AND queue = $1
  UNION
  SELECT behind.id FROM {schema}.ready r JOIN {schema}.deliveries head ON head.id = r.delivery
  JOIN {schema}.deliveries behind ON behind.lane = head.lane AND behind.pos > 0
  WHERE r.token IS NULL AND r.queue = $1 AND behind.queue = $1
  LIMIT $2)
ORDER BY d.id;

-- name: removed_queues
SELECT q.id FROM {schema}.queues q JOIN {schema}.contracts c ON c.id = q.contract
WHERE c.removed_at IS NOT NULL
  AND EXISTS (SELECT FROM {schema}.ready r WHERE r.token IS NULL AND r.queue = q.id);

-- name: unserved_pending
-- The waiting and, with the head of a lane, whoever has waited behind it as long: they would only be buried one by one.
WITH waiting (id, lane) AS (
  SELECT d.id, d.lane FROM {schema}.queues q
  JOIN {schema}.ready r ON r.queue = q.id AND r.token IS NULL AND r.due_at <= $1
  JOIN {schema}.deliveries d ON d.id = r.delivery
  WHERE q.kind = 'handler' AND q.served_at <= $1 AND NOT q.paused AND NOT q.parked LIMIT $2
)
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.id IN (
  SELECT id FROM waiting
  UNION
  SELECT behind.id FROM waiting JOIN {schema}.deliveries behind
    ON behind.lane = waiting.lane AND behind.pos > 0 AND behind.created_at <= $1
  LIMIT $2)
ORDER BY d.id;
