-- name: ready_queues
-- A loose index scan: one step for each queue that has unleased rows, however many it has. The page is bounded and
-- starts after the queue served last, so that many queues take turns. Paused and parked queues are included without a due
-- time: a page that left them out could be empty before the last queue.
WITH RECURSIVE walk (id, steps) AS (
  SELECT (SELECT min(queue) FROM holdfast_ready WHERE token IS NULL AND queue > ?1), 1
  UNION ALL
  SELECT (SELECT min(queue) FROM holdfast_ready WHERE token IS NULL AND queue > walk.id), steps + 1
  FROM walk WHERE walk.id IS NOT NULL AND steps < ?2
)
SELECT q.id, q.contract, q.address, q.kind,
       CASE WHEN q.paused = 0 AND q.parked = 0
            THEN (SELECT min(due_at) FROM holdfast_ready WHERE token IS NULL AND queue = q.id) END
FROM walk CROSS JOIN holdfast_queues q ON q.id = walk.id;

-- name: ready_lease
-- `starts < 2` is SUSPECT_STARTS, written out so that the suspects' partial index can serve the statements below.
UPDATE holdfast_ready SET owner = ?1, token = ?2, lease_until = ?3, starts = starts + 1
WHERE delivery IN (
  SELECT delivery FROM holdfast_ready
  WHERE token IS NULL AND queue = ?4 AND due_at <= ?5 AND starts < 2
  ORDER BY due_at, delivery LIMIT ?6);

-- name: ready_leased
SELECT r.delivery, r.queue, r.starts, d.attempts, d.generation, d.handed_until IS NOT NULL,
       e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, e.payload, e.address
FROM holdfast_ready r JOIN holdfast_deliveries d ON d.id = r.delivery JOIN holdfast_events e ON e.n = d.event
WHERE r.token = ? ORDER BY r.due_at, r.delivery;

-- name: suspect_queues
SELECT DISTINCT queue FROM holdfast_ready WHERE token IS NULL AND starts >= 2 AND due_at <= ?;

-- name: suspect_lease
UPDATE holdfast_ready SET owner = ?1, token = ?2, lease_until = ?3, starts = starts + 1
WHERE delivery IN (
  SELECT delivery FROM holdfast_ready
  WHERE token IS NULL AND starts >= 2 AND queue = ?4 AND due_at <= ?5
  ORDER BY starts, due_at LIMIT 1);

-- name: lease_renew
UPDATE holdfast_ready SET lease_until = ? WHERE delivery = ? AND token = ?;

-- name: lease_release
UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL, starts = starts - 1
WHERE delivery = ? AND token = ?;

-- name: lease_uncount
UPDATE holdfast_ready SET starts = starts - 1 WHERE delivery = ? AND token = ?;

-- name: lease_reclaim
UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
WHERE token IS NOT NULL AND (
  (lease_until < ?1 AND delivery NOT IN (SELECT value FROM json_each(?3)))
  OR owner IN (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2));

-- name: lease_reclaim_of
UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL WHERE token IS NOT NULL AND owner = ?;

-- name: lease_holders
SELECT DISTINCT o.id, o.pid, o.host FROM holdfast_ready r JOIN holdfast_owners o ON o.id = r.owner
WHERE r.token IS NOT NULL;

-- name: lease_others
SELECT EXISTS (SELECT 1 FROM holdfast_ready WHERE token IS NOT NULL AND owner <> ?);

-- name: ready_add
INSERT INTO holdfast_ready (delivery, queue, due_at) VALUES (?, ?, ?);

-- name: lane_next
INSERT INTO holdfast_ready (delivery, queue, due_at)
SELECT id, queue, ?2 FROM holdfast_deliveries
WHERE lane = ?1 AND state = 'pending' AND handed_until IS NULL
  AND pos = (SELECT min(pos) FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending')
ON CONFLICT DO NOTHING;

-- name: handed_due
INSERT INTO holdfast_ready (delivery, queue, due_at)
SELECT id, queue, ?1 FROM holdfast_deliveries d WHERE handed_until IS NOT NULL AND handed_until <= ?1
  AND NOT EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.delivery = d.id)
ORDER BY handed_until LIMIT ?2;

-- name: ready_end
-- The fence: only rows that still have the token of the settlement.
DELETE FROM holdfast_ready WHERE token = ?1 AND delivery IN (SELECT value FROM json_each(?2));

-- name: ready_again
UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL, starts = 0, due_at = ?
WHERE delivery = ? AND token = ?;

-- name: ready_remove
DELETE FROM holdfast_ready WHERE delivery = ?;

-- name: ready_make_due
UPDATE holdfast_ready SET due_at = ?1 WHERE delivery = ?2 AND token IS NULL AND due_at > ?1;

-- name: ready_remove_lane
DELETE FROM holdfast_ready WHERE token IS NULL AND delivery IN (
  SELECT id FROM holdfast_deliveries WHERE lane = ? AND state = 'pending');

-- name: ready_remove_paused
-- The head of a paused lane can come back: its delivery failed, was released or reclaimed, or its confirmation is due.
DELETE FROM holdfast_ready WHERE token IS NULL AND delivery IN (
  SELECT (SELECT d.id FROM holdfast_deliveries d
          WHERE d.lane = l.id AND d.state = 'pending' AND d.lane IS NOT NULL ORDER BY d.pos LIMIT 1)
  FROM holdfast_pauses p JOIN holdfast_lanes l ON l.key = p.name WHERE p.scope = 'lane');

-- name: burst_behind
-- The pending deliveries just before a place in a lane, nearest first.
SELECT d.id, d.burst, r.token IS NOT NULL, d.generation, d.attempts, e.id
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event LEFT JOIN holdfast_ready r ON r.delivery = d.id
WHERE d.lane = ? AND d.pos < ? AND d.state = 'pending' ORDER BY d.pos DESC LIMIT ?;

-- name: burst_oldest
SELECT d.id, d.generation, d.attempts, e.id
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event LEFT JOIN holdfast_ready r ON r.delivery = d.id
WHERE d.lane = ? AND d.state = 'pending' AND d.burst IS NOT NULL AND r.token IS NULL ORDER BY d.pos LIMIT ?;

-- name: removed_queues
SELECT q.id FROM holdfast_queues q JOIN holdfast_contracts c ON c.id = q.contract
WHERE c.removed_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.token IS NULL AND r.queue = q.id);

-- name: removed_pending
-- The unleased rows of a removed contract's queue, and the pending deliveries behind them in their lanes.
SELECT d.id, d.generation, d.attempts, e.id FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event
WHERE d.id IN (
  SELECT delivery FROM holdfast_ready WHERE token IS NULL AND queue = ?1
  UNION
  SELECT behind.id FROM holdfast_ready r JOIN holdfast_deliveries head ON head.id = r.delivery
  JOIN holdfast_deliveries behind ON behind.lane = head.lane AND behind.state = 'pending' AND behind.lane IS NOT NULL
  WHERE r.token IS NULL AND r.queue = ?1 AND behind.queue = ?1
  LIMIT ?2);

-- name: unserved_pending
-- Due rows of handlers that no process serves and, with the head of a lane, deliveries behind it that are as old: they
-- would only be dead-lettered one by one.
-- CROSS JOIN keeps the planner from scanning the whole ready queue, or all deliveries.
WITH waiting (id, lane) AS (
  SELECT d.id, d.lane FROM holdfast_queues q
  CROSS JOIN holdfast_ready r ON r.queue = q.id AND r.token IS NULL AND r.due_at <= ?1
  JOIN holdfast_deliveries d ON d.id = r.delivery
  WHERE q.kind = 'handler' AND q.served_at <= ?1 AND q.paused = 0 AND q.parked = 0 LIMIT ?2
)
SELECT d.id, d.generation, d.attempts, e.id FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event
WHERE d.id IN (
  SELECT id FROM waiting
  UNION
  SELECT behind.id FROM waiting CROSS JOIN holdfast_deliveries behind
    ON behind.lane = waiting.lane AND behind.lane IS NOT NULL AND behind.state = 'pending' AND behind.created_at <= ?1
  LIMIT ?2);

-- name: ready_count
-- Each count has its own index. Few rows are leased, however many are not.
SELECT (SELECT count(*) FROM holdfast_queues q JOIN holdfast_ready r ON r.queue = q.id AND r.token IS NULL
        WHERE q.address = ?1),
       (SELECT count(*) FROM holdfast_ready r JOIN holdfast_queues q ON q.id = r.queue
        WHERE r.token IS NOT NULL AND q.address = ?1);

-- name: ready_depth
-- By the indexes of rows without and with a lease.
SELECT sum(number), sum(leased), min(oldest) FROM (
  SELECT count(*) AS number, 0 AS leased, min(delivery) AS oldest FROM holdfast_ready WHERE token IS NULL AND queue = ?1
  UNION ALL
  SELECT count(*), count(*), min(delivery) FROM holdfast_ready WHERE token IS NOT NULL AND queue = ?1) r;

-- name: figures_ready
SELECT count(*), count(token), min(CASE WHEN token IS NULL THEN due_at END) FROM holdfast_ready;

-- name: figures_behind
-- CROSS JOIN keeps the planner from scanning all deliveries while it has no figures about the ready queue.
SELECT (SELECT count(*) FROM holdfast_deliveries WHERE state = 'pending' AND lane IS NOT NULL)
     - (SELECT count(*) FROM holdfast_ready r CROSS JOIN holdfast_deliveries d ON d.id = r.delivery
        WHERE d.lane IS NOT NULL)
     + (SELECT count(*) FROM holdfast_deliveries d WHERE handed_until IS NOT NULL AND lane IS NULL
        AND NOT EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.delivery = d.id));

-- name: figures_oldest
SELECT min(d.created_at) FROM (SELECT delivery FROM holdfast_ready ORDER BY delivery LIMIT 1) r
JOIN holdfast_deliveries d ON d.id = r.delivery;

-- name: pending_by_queue
-- Rows of the ready queue; what waits in each lane, less its head if that has a row; and deliveries that were handed over.
SELECT coalesce(nullif(q.contract, ''), q.address), sum(p.pending) FROM (
  SELECT queue, count(*) AS pending FROM holdfast_ready GROUP BY queue
  UNION ALL
  SELECT d.queue, l.open - (r.delivery IS NOT NULL) FROM holdfast_lanes l JOIN holdfast_deliveries d ON d.id = (
    SELECT head.id FROM holdfast_deliveries head
    WHERE head.lane = l.id AND head.state = 'pending' AND head.lane IS NOT NULL ORDER BY head.pos LIMIT 1)
  LEFT JOIN holdfast_ready r ON r.delivery = d.id WHERE l.open > 0
  UNION ALL
  SELECT queue, 1 FROM holdfast_deliveries d WHERE handed_until IS NOT NULL AND lane IS NULL
    AND NOT EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.delivery = d.id)
) p JOIN holdfast_queues q ON q.id = p.queue
GROUP BY 1 ORDER BY 2 DESC LIMIT ?;
