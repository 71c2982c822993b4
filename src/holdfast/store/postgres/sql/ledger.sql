-- name: node_free
-- A chain nobody writes on: its owner retired, or gives no sign of life. Taken without waiting for who takes another.
SELECT n.chain FROM {schema}.nodes n
WHERE n.chain <> 'substrate' AND (n.owner IS NULL OR n.owner NOT IN (SELECT {schema}.owners_alive()))
ORDER BY n.chain LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: node_add
INSERT INTO {schema}.nodes (chain) SELECT 'node-' || lpad((count(*) + 1)::text, 4, '0') FROM {schema}.nodes
ON CONFLICT DO NOTHING RETURNING chain;

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

-- name: owner_lock
-- The owners' table gives the lock its first half, so that schemas of one database do not meet.
SELECT pg_try_advisory_lock('{schema}.owners'::regclass::oid::bigint::bit(32)::integer, $1);

-- name: owner_unlock
SELECT pg_advisory_unlock('{schema}.owners'::regclass::oid::bigint::bit(32)::integer, $1);

-- name: owner_chain
UPDATE {schema}.owners SET chain = $1 WHERE id = $2;

-- name: owner_end
UPDATE {schema}.owners SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL;

-- name: owner_back
UPDATE {schema}.owners SET ended_at = NULL WHERE id = $1;

-- name: owner_end_others
-- Others may well be alive here: only those without a sign of life did not stop in order.
UPDATE {schema}.owners o SET ended_at = $1 WHERE o.id <> $2 AND o.ended_at IS NULL
  AND o.id NOT IN (SELECT {schema}.owners_alive());

-- name: owner_forget
DELETE FROM {schema}.owners WHERE ended_at < $1
  AND id NOT IN (SELECT owner FROM {schema}.ready WHERE owner IS NOT NULL)
  AND id NOT IN (SELECT owner FROM {schema}.nodes WHERE owner IS NOT NULL);

-- name: cursor_ensure
INSERT INTO {schema}.cursors (reader, stream, position, updated_at) VALUES ($1, $2, 0, $3) ON CONFLICT DO NOTHING;

-- name: cursor_get
SELECT reader, stream, position, updated_at FROM {schema}.cursors WHERE reader = $1 AND stream = $2;

-- name: cursor_advance
UPDATE {schema}.cursors SET position = $3, updated_at = $4 WHERE reader = $1 AND stream = $2 AND position <= $3;

-- name: token_add
INSERT INTO {schema}.tokens (id, name, scope, hash, created_at) VALUES ($1, $2, $3, $4, $5);

-- name: token_scope
SELECT scope FROM {schema}.tokens WHERE hash = $1 AND revoked_at IS NULL;

-- name: token_find
SELECT id, name, scope, created_at, revoked_at FROM {schema}.tokens WHERE id > $1 ORDER BY id LIMIT $2;

-- name: token_revoke
UPDATE {schema}.tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL;
