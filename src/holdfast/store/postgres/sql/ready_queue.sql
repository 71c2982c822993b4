-- name: ready_queues
-- A loose index scan: one step for each queue that has unleased rows, however many it has. The page is bounded and
-- starts after the queue served last, so that many queues take turns. Paused and parked queues are included without a due
-- time: a page that left them out could be empty before the last queue. The last column but one is true where a short
-- claim is not enough: a lane is paused by name, or a row is suspect. Then follow the contract's concurrency where
-- several processes share it, and how many processes work (at most 8 are counted).
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
       CASE WHEN working.owners > 1 THEN (SELECT c.concurrency FROM {schema}.contracts c WHERE c.id = q.contract) END,
       working.owners
FROM walk JOIN {schema}.queues q ON q.id = walk.id
CROSS JOIN (SELECT count(*) AS owners
            FROM (SELECT id FROM {schema}.owners WHERE ended_at IS NULL ORDER BY id LIMIT 8) o) working
ORDER BY walk.steps;

-- name: ready_lease
-- Returns all that the token holds: rows leased now, and rows that an earlier try leased whose response was lost.
SELECT * FROM {schema}.lease($1, $2, $3, $4, $5, $6, $7, $8, $9);

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

-- name: queue_leased
SELECT queue, count(*) FROM {schema}.ready WHERE token IS NOT NULL AND queue = ANY($1::bigint[]) GROUP BY queue;

-- name: lease_renew
-- Rows are found by their delivery, here and below: a whole batch has one token, so a search by token would compare each
-- lease with every other. IS NOT DISTINCT FROM is an equality that no index serves.
UPDATE {schema}.ready r SET lease_until = coalesce($1, {schema}.now_ms()) + $2
FROM unnest($3::bigint[], $4::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING r.delivery;

-- name: lease_prolong
-- All leases of one owner, while its event loop is too busy to renew each of them.
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
-- Leases of claims whose response was lost.
UPDATE {schema}.ready SET owner = NULL, token = NULL, lease_until = NULL, starts = starts - 1
WHERE token = ANY ($1::bigint[]);

-- name: lease_reclaim
-- An owner that seemed dead may have reconnected a moment ago, so its lock is checked once more.
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

-- name: owners_missing
-- Owners that hold leases, or did not end in order, and show no sign of life. Owner 0 is a program that read the queue by
-- pgmq itself: only the end of its lease says that it is gone.
SELECT h.owner, o.pid, o.boot_id
FROM (SELECT owner FROM {schema}.ready WHERE token IS NOT NULL
      UNION SELECT id FROM {schema}.owners WHERE ended_at IS NULL) h LEFT JOIN {schema}.owners o ON o.id = h.owner
WHERE h.owner > 0 AND h.owner NOT IN (SELECT {schema}.owners_alive());

-- name: ready_add
INSERT INTO {schema}.ready (delivery, queue, due_at) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]);

-- name: lane_next
INSERT INTO {schema}.ready (delivery, queue, due_at)
SELECT head.id, head.queue, $2 FROM unnest($1::bigint[]) w(lane)
CROSS JOIN LATERAL (
  SELECT d.id, d.queue, d.handed_until FROM {schema}.deliveries d
  WHERE d.lane = w.lane AND d.pos > 0 ORDER BY d.pos LIMIT 1) head
WHERE head.handed_until IS NULL
ON CONFLICT DO NOTHING;

-- name: handed_due
-- The delivery's own row is locked, so that no other transaction ends it meanwhile.
WITH due AS (
  SELECT d.id, d.queue FROM {schema}.deliveries d WHERE d.handed_until IS NOT NULL AND d.handed_until <= $1
    AND NOT EXISTS (SELECT FROM {schema}.ready r WHERE r.delivery = d.id)
  ORDER BY d.handed_until LIMIT $2 FOR UPDATE SKIP LOCKED
)
INSERT INTO {schema}.ready (delivery, queue, due_at) SELECT id, queue, $1 FROM due ON CONFLICT DO NOTHING;

-- name: ready_end
DELETE FROM {schema}.ready r USING unnest($1::bigint[], $2::bigint[]) w(delivery, token)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING w.delivery, w.token;

-- name: ready_again
UPDATE {schema}.ready r SET owner = NULL, token = NULL, lease_until = NULL, starts = 0, due_at = w.due_at
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) w(delivery, token, due_at)
WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token RETURNING w.delivery, w.token;

-- name: ready_remove
DELETE FROM {schema}.ready WHERE delivery = ANY ($1::bigint[]);

-- name: ready_make_due
UPDATE {schema}.ready SET due_at = $1 WHERE delivery = ANY ($2::bigint[]) AND token IS NULL AND due_at > $1
RETURNING delivery;

-- name: ready_remove_lane
DELETE FROM {schema}.ready WHERE token IS NULL AND delivery IN (
  SELECT id FROM {schema}.deliveries WHERE lane = $1 AND pos > 0);

-- name: ready_remove_paused
-- The head of a paused lane can come back: its delivery failed, was released or reclaimed, or its confirmation is due.
DELETE FROM {schema}.ready WHERE token IS NULL AND delivery IN (
  SELECT (SELECT d.id FROM {schema}.deliveries d
          WHERE d.lane = l.id AND d.pos > 0 ORDER BY d.pos LIMIT 1)
  FROM {schema}.pauses p JOIN {schema}.lanes l ON l.key = p.name WHERE p.scope = 'lane');

-- name: route_plain
-- Fused: a whole batch whose deliveries all go to known queues and have no lane, in one statement. The lock on the version
-- prevents changes of contracts until the router has committed. If the version is not $1, nothing is changed.
-- Deliveries with a lease time ($9) are leased to owner $10 by token $11, unless their queue is paused or parked.
WITH held AS MATERIALIZED (
  SELECT value::bigint AS version FROM {schema}.meta WHERE key = 'contracts_version' FOR SHARE
), clock AS MATERIALIZED (  -- evaluated once, not for each row
  SELECT coalesce($12::bigint, {schema}.now_ms()) AS now_ms
), stopped AS MATERIALIZED (
  SELECT id FROM {schema}.queues
  WHERE $11::bigint IS NOT NULL AND id = ANY ($13::bigint[]) AND (paused OR parked)
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
  SELECT w.event, w.queue, w.due_at, w.ord,
         CASE WHEN w.queue NOT IN (SELECT id FROM stopped) THEN w.lease_ms END AS lease_ms
  FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $9::bigint[]) WITH ORDINALITY
    w(event, queue, due_at, lease_ms, ord)
  JOIN gone USING (event)
), added AS (
  INSERT INTO {schema}.deliveries (event, queue, created_at) SELECT event, queue, $7 FROM wanted ORDER BY ord
  ON CONFLICT (event, queue) DO NOTHING RETURNING id, event, queue
), placed AS (
  SELECT a.id, a.event, a.queue, w.due_at, w.lease_ms FROM added a JOIN wanted w USING (event, queue) ORDER BY a.id
), ready AS (
  INSERT INTO {schema}.ready (delivery, queue, due_at, starts, owner, token, lease_until)
  SELECT id, queue, due_at, CASE WHEN lease_ms IS NULL THEN 0 ELSE 1 END, CASE WHEN lease_ms IS NOT NULL THEN $10::bigint END,
         CASE WHEN lease_ms IS NOT NULL THEN $11::bigint END, clock.now_ms + lease_ms FROM placed, clock
)
SELECT (SELECT version FROM held), (SELECT count(*) FROM added),
       array_agg(id), array_agg(event), array_agg(queue) FROM placed WHERE lease_ms IS NOT NULL;

-- name: delivery_add
-- Fused: deliveries, and a ready row for each that has a due time.
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

-- name: settle_delivered
-- Fused: see the function. Arrays are sent as text: the driver takes longer to encode the numbers one by one than both
-- sides need to write and parse the text.
SELECT {schema}.settle_delivered($1::text::bigint[], $2::text::bigint[], $3::text::integer[], $4, $5, $6, $7, $8, $9, $10);

-- name: burst_ready
SELECT delivery FROM {schema}.ready WHERE delivery = ANY ($1::bigint[]);

-- name: burst_free
-- Rows that are not leased and not being leased. This must not wait: the transaction already holds the lane's lock.
SELECT delivery FROM {schema}.ready WHERE delivery = ANY ($1::bigint[]) AND token IS NULL FOR UPDATE SKIP LOCKED;

-- name: removed_queues
SELECT q.id FROM {schema}.queues q JOIN {schema}.contracts c ON c.id = q.contract
WHERE c.removed_at IS NOT NULL
  AND EXISTS (SELECT FROM {schema}.ready r WHERE r.token IS NULL AND r.queue = q.id);

-- name: removed_pending
-- The unleased rows of a removed contract's queue, and the pending deliveries behind them in their lanes.
SELECT d.id, e.id FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event
WHERE d.id IN (
  SELECT delivery FROM {schema}.ready WHERE token IS NULL AND queue = $1
  UNION
  SELECT behind.id FROM {schema}.ready r JOIN {schema}.deliveries head ON head.id = r.delivery
  JOIN {schema}.deliveries behind ON behind.lane = head.lane AND behind.pos > 0
  WHERE r.token IS NULL AND r.queue = $1 AND behind.queue = $1
  LIMIT $2)
ORDER BY d.id;

-- name: unserved_pending
-- Due rows of handlers that no process serves and, with the head of a lane, deliveries behind it that are as old: they
-- would only be dead-lettered one by one.
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

-- name: ready_count
-- Each count has its own index. Few rows are leased, however many are not.
SELECT (SELECT count(*) FROM {schema}.queues q JOIN {schema}.ready r ON r.queue = q.id AND r.token IS NULL
        WHERE q.address = $1::text),
       (SELECT count(*) FROM {schema}.ready r JOIN {schema}.queues q ON q.id = r.queue
        WHERE r.token IS NOT NULL AND q.address = $1::text);

-- name: ready_depth
-- By the indexes of rows without and with a lease.
SELECT sum(number)::bigint, sum(leased)::bigint, min(oldest) FROM (
  SELECT count(*) AS number, 0 AS leased, min(delivery) AS oldest FROM {schema}.ready WHERE token IS NULL AND queue = $1
  UNION ALL
  SELECT count(*), count(*), min(delivery) FROM {schema}.ready WHERE token IS NOT NULL AND queue = $1) r;

-- name: figures_ready
SELECT count(*), count(token), min(CASE WHEN token IS NULL THEN due_at END) FROM {schema}.ready;

-- name: figures_behind
SELECT (SELECT count(*) FROM {schema}.deliveries WHERE pos > 0)
     - (SELECT count(*) FROM {schema}.ready r JOIN {schema}.deliveries d ON d.id = r.delivery WHERE d.lane IS NOT NULL)
     + (SELECT count(*) FROM {schema}.deliveries d WHERE handed_until IS NOT NULL AND lane IS NULL
        AND NOT EXISTS (SELECT FROM {schema}.ready r WHERE r.delivery = d.id));

-- name: figures_oldest
SELECT min(d.created_at) FROM (SELECT delivery FROM {schema}.ready ORDER BY delivery LIMIT 1) r
JOIN {schema}.deliveries d ON d.id = r.delivery;

-- name: pending_by_queue
-- Rows of the ready queue; what waits in each lane, less its head if that has a row; and deliveries that were handed over.
SELECT coalesce(nullif(q.contract, ''), q.address), sum(p.pending)::bigint FROM (
  SELECT queue, count(*) AS pending FROM {schema}.ready GROUP BY queue
  UNION ALL
  SELECT d.queue, l.open - (r.delivery IS NOT NULL)::int FROM {schema}.lanes l JOIN {schema}.deliveries d ON d.id = (
    SELECT head.id FROM {schema}.deliveries head WHERE head.lane = l.id AND head.pos > 0 ORDER BY head.pos LIMIT 1)
  LEFT JOIN {schema}.ready r ON r.delivery = d.id WHERE l.open > 0
  UNION ALL
  SELECT queue, 1 FROM {schema}.deliveries d WHERE handed_until IS NOT NULL AND lane IS NULL
    AND NOT EXISTS (SELECT FROM {schema}.ready r WHERE r.delivery = d.id)
) p JOIN {schema}.queues q ON q.id = p.queue
GROUP BY 1 ORDER BY 2 DESC LIMIT $1;
