-- name: node_free
SELECT chain FROM holdfast_nodes
WHERE chain <> 'substrate' AND (owner IS NULL OR owner IN (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL))
ORDER BY chain LIMIT 1;

-- name: node_add
INSERT INTO holdfast_nodes (chain) SELECT printf('node-%04d', count(*) + 1) FROM holdfast_nodes
WHERE chain <> 'substrate' RETURNING chain;

-- name: node_take
UPDATE holdfast_nodes SET owner = ? WHERE chain = ?;

-- name: node_head
SELECT seq, head FROM holdfast_nodes WHERE chain = ?;

-- name: node_advance
UPDATE holdfast_nodes SET seq = ?, head = ? WHERE chain = ?;

-- name: node_heads
SELECT chain, seq, head FROM holdfast_nodes ORDER BY chain;

-- name: receipt_add
INSERT INTO holdfast_receipts (chain, seq, at, prev, root, h_self, leaves) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: receipt_page
SELECT chain, seq, at, prev, root, h_self, leaves FROM holdfast_receipts
WHERE (chain, seq) > (?, ?) ORDER BY chain, seq LIMIT ?;

-- name: receipt_page_chain
SELECT chain, seq, at, prev, root, h_self, leaves FROM holdfast_receipts
WHERE chain = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: receipt_at
SELECT chain, seq, at, prev, root, h_self, leaves FROM holdfast_receipts
WHERE at IN (SELECT value FROM json_each(?)) ORDER BY at, chain, seq LIMIT ?;

-- name: owner_add
INSERT INTO holdfast_owners (pid, host, boot_id, chain, started_at) VALUES (?, ?, ?, '', ?) RETURNING id;

-- name: owner_chain
UPDATE holdfast_owners SET chain = ? WHERE id = ?;

-- name: owner_end
UPDATE holdfast_owners SET ended_at = ? WHERE id = ? AND ended_at IS NULL;

-- name: owner_end_others
UPDATE holdfast_owners SET ended_at = ? WHERE id <> ? AND ended_at IS NULL;

-- name: owners_working
-- The owners that have not ended, or still hold something, with the number of deliveries and streams they lease.
SELECT o.id, o.host, o.pid, o.chain, o.started_at, o.ended_at IS NULL, coalesce(d.held, 0), coalesce(s.held, 0)
FROM holdfast_owners o
LEFT JOIN (SELECT owner, count(*) AS held FROM holdfast_ready WHERE token IS NOT NULL GROUP BY owner) d ON d.owner = o.id
LEFT JOIN (SELECT owner, count(*) AS held FROM holdfast_lagging WHERE token IS NOT NULL GROUP BY owner) s ON s.owner = o.id
WHERE o.ended_at IS NULL OR d.held > 0 OR s.held > 0 ORDER BY o.id LIMIT ?;

-- name: owner_forget
DELETE FROM holdfast_owners WHERE ended_at < ? AND id NOT IN (SELECT owner FROM holdfast_ready WHERE owner IS NOT NULL)
  AND id NOT IN (SELECT owner FROM holdfast_nodes WHERE owner IS NOT NULL);

-- name: token_add
INSERT INTO holdfast_tokens (id, name, scope, hash, created_at) VALUES (?, ?, ?, ?, ?);

-- name: token_scope
SELECT id, scope FROM holdfast_tokens WHERE hash = ? AND revoked_at IS NULL;

-- name: token_find
SELECT id, name, scope, created_at, revoked_at FROM holdfast_tokens WHERE id > ? ORDER BY id LIMIT ?;

-- name: token_revoke
UPDATE holdfast_tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL;
