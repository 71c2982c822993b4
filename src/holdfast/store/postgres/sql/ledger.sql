-- name: node_free
-- A chain without a writer: its owner retired or died. A chain that another process is taking is skipped.
SELECT n.chain FROM {schema}.nodes n
WHERE n.chain <> 'substrate' AND (n.owner IS NULL OR n.owner NOT IN (SELECT {schema}.owners_alive()))
ORDER BY n.chain LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: node_add
INSERT INTO {schema}.nodes (chain) SELECT 'node-' || lpad((count(*) + 1)::text, 4, '0') FROM {schema}.nodes
WHERE chain <> 'substrate' ON CONFLICT DO NOTHING RETURNING chain;

-- name: node_take
UPDATE {schema}.nodes SET owner = $1 WHERE chain = $2;

-- name: node_head
-- Locked: after a broken connection two processes may for a moment write on one chain, one after the other.
SELECT seq, head FROM {schema}.nodes WHERE chain = $1 FOR UPDATE;

-- name: node_heads
SELECT chain, seq, head FROM {schema}.nodes ORDER BY chain;

-- name: receipt_add
WITH moved AS (UPDATE {schema}.nodes SET seq = $2, head = $6 WHERE chain = $1)
INSERT INTO {schema}.receipts (chain, seq, at, prev, root, h_self, leaves) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: receipt_page
SELECT chain, seq, at, prev, root, h_self, leaves FROM {schema}.receipts
WHERE (chain, seq) > ($1, $2) ORDER BY chain, seq LIMIT $3;

-- name: receipt_page_chain
SELECT chain, seq, at, prev, root, h_self, leaves FROM {schema}.receipts
WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: receipt_at
SELECT chain, seq, at, prev, root, h_self, leaves FROM {schema}.receipts
WHERE at = ANY ($1::bigint[]) ORDER BY at, chain, seq LIMIT $2;

-- name: owner_add
INSERT INTO {schema}.owners (pid, host, boot_id, chain, started_at, seen_at)
VALUES ($1, $2, $3, '', $4, CASE WHEN $5 THEN {schema}.now_ms() END) RETURNING id;

-- name: owner_seen
UPDATE {schema}.owners SET seen_at = {schema}.now_ms(), ended_at = NULL WHERE id = $1 RETURNING seen_at;

-- name: owner_probe
-- A notification to ourselves and a sign of life, which needs no flush.
WITH active AS (
  UPDATE {schema}.owners SET active_at = {schema}.now_ms() WHERE id = ANY ($3::integer[])
)
SELECT pg_notify($1, $2), {schema}.now_ms(), set_config('synchronous_commit', 'off', true);

-- name: owner_lock
-- The owners' table gives the lock its first half, so that schemas of one database do not share locks.
SELECT pg_try_advisory_lock('{schema}.owners'::regclass::oid::bigint::bit(32)::integer, $1);

-- name: owner_unlock
SELECT pg_advisory_unlock('{schema}.owners'::regclass::oid::bigint::bit(32)::integer, $1);

-- name: owner_chain
UPDATE {schema}.owners SET chain = $1 WHERE id = $2;

-- name: owner_end
UPDATE {schema}.owners SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL;

-- name: owner_back
UPDATE {schema}.owners SET ended_at = NULL WHERE id = $1;

-- name: owners_end_gone
-- Died: the others no longer count them. One that seemed dead and has reconnected a moment ago is left as it is.
UPDATE {schema}.owners SET ended_at = $1 WHERE id = ANY ($2::integer[]) AND ended_at IS NULL
  AND id NOT IN (SELECT {schema}.owners_alive());

-- name: owner_end_others
-- Other owners may be alive. One that is neither alive nor ended did not stop cleanly.
UPDATE {schema}.owners o SET ended_at = $1 WHERE o.id <> $2 AND o.ended_at IS NULL
  AND o.id NOT IN (SELECT {schema}.owners_alive());

-- name: owners_working
-- The owners that have not ended, or still hold something, with the number of deliveries and streams they lease.
SELECT o.id, o.host, o.pid, o.chain, o.started_at, greatest(o.seen_at, o.active_at, o.started_at),
       o.id IN (SELECT {schema}.owners_alive()), coalesce(d.held, 0), coalesce(s.held, 0)
FROM {schema}.owners o
LEFT JOIN (SELECT owner, count(*) AS held FROM {schema}.ready WHERE token IS NOT NULL GROUP BY owner) d ON d.owner = o.id
LEFT JOIN (SELECT owner, count(*) AS held FROM {schema}.lagging WHERE token IS NOT NULL GROUP BY owner) s ON s.owner = o.id
WHERE o.ended_at IS NULL OR d.held > 0 OR s.held > 0 ORDER BY o.id LIMIT $1;

-- name: owner_forget
DELETE FROM {schema}.owners WHERE ended_at < $1
  AND id NOT IN (SELECT owner FROM {schema}.ready WHERE owner IS NOT NULL)
  AND id NOT IN (SELECT owner FROM {schema}.nodes WHERE owner IS NOT NULL);

-- name: token_add
INSERT INTO {schema}.tokens (id, name, scope, hash, created_at) VALUES ($1, $2, $3, $4, $5);

-- name: token_scope
SELECT id, scope FROM {schema}.tokens WHERE hash = $1 AND revoked_at IS NULL;

-- name: token_find
SELECT id, name, scope, created_at, revoked_at FROM {schema}.tokens WHERE id > $1 ORDER BY id LIMIT $2;

-- name: token_revoke
UPDATE {schema}.tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL;
