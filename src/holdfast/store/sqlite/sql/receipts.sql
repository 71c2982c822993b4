-- name: receipt_ends
-- Where each chain ends: as recorded, and its last link. Chains that are recorded nowhere are found too.
WITH RECURSIVE found (chain) AS (
  SELECT min(chain) FROM holdfast_receipts
  UNION ALL
  SELECT (SELECT min(r.chain) FROM holdfast_receipts r WHERE r.chain > found.chain) FROM found
  WHERE found.chain IS NOT NULL)
SELECT c.chain, n.seq, n.head,
       (SELECT r.seq FROM holdfast_receipts r WHERE r.chain = c.chain AND r.seq <= 9223372036854775807
        ORDER BY r.seq DESC LIMIT 1)
FROM (SELECT chain FROM found WHERE chain IS NOT NULL UNION SELECT chain FROM holdfast_nodes) c
LEFT JOIN holdfast_nodes n ON n.chain = c.chain
ORDER BY c.chain;

-- name: receipt_rows
SELECT chain, seq, at, prev, root, h_self, leaves FROM holdfast_receipts
WHERE chain = ? AND seq >= ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: node_shared
-- The chain that all processes share.
INSERT INTO holdfast_nodes (chain) VALUES ('substrate') ON CONFLICT DO NOTHING;

-- name: substrate_known
-- The receipt of a source tuple.
SELECT s.id, s.chain_seq, r.h_self, r.at, r.leaves
FROM holdfast_substrate s LEFT JOIN holdfast_receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq
WHERE s.source_system = ? AND s.source_table = ? AND s.source_id = ? AND s.action_type = ? AND s.source_version = ?;

-- name: substrate_taken
SELECT 1 FROM holdfast_receipts WHERE chain = 'substrate' AND seq = ?1
UNION ALL
SELECT 1 FROM holdfast_substrate WHERE chain_seq = ?1;

-- name: substrate_add
INSERT INTO holdfast_substrate (chain_seq, id, source_system, source_table, source_id, action_type, source_version,
                                tenant_id, actor_id, actor_kind, input_hash, output_hash, references_json)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: substrate_page
SELECT s.chain_seq, s.id, s.source_system, s.source_table, s.source_id, s.action_type, s.source_version, s.tenant_id,
       s.actor_id, s.actor_kind, s.input_hash, s.output_hash, s.references_json, r.at, r.prev, r.h_self
FROM holdfast_substrate s LEFT JOIN holdfast_receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq
WHERE s.chain_seq > ?1 AND s.chain_seq <= ?2
  AND (?3 IS NULL OR s.source_system = ?3) AND (?4 IS NULL OR s.source_table = ?4)
  AND (?5 IS NULL OR s.source_id = ?5) AND (?6 IS NULL OR s.action_type = ?6)
  AND (?7 IS NULL OR s.tenant_id = ?7)
ORDER BY s.chain_seq LIMIT ?8;

-- name: delivery_statuses
SELECT d.id, d.generation, d.attempts, d.state, d.reason, e.id
FROM holdfast_deliveries d LEFT JOIN holdfast_events e ON e.n = d.event
WHERE d.id > ? ORDER BY d.id LIMIT ?;

-- name: contract_states
SELECT id, contract_json, active, removed_at IS NOT NULL FROM holdfast_contracts;

-- name: token_states
SELECT id, scope, revoked_at IS NOT NULL FROM holdfast_tokens;

-- name: delivery_span
SELECT coalesce(min(id), 0), max(coalesce(max(id), 0), coalesce((SELECT seq FROM sqlite_sequence
                                                                 WHERE name = 'holdfast_deliveries'), 0))
FROM holdfast_deliveries;

-- name: checked_put
INSERT INTO holdfast_checked_chains (chain, checked_at, checked_to, faults, fault) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (chain) DO UPDATE SET checked_at = excluded.checked_at, checked_to = excluded.checked_to,
  faults = excluded.faults, fault = excluded.fault;

-- name: checked_forget
DELETE FROM holdfast_checked_chains;

-- name: checked_all
SELECT chain, checked_at, checked_to, faults, fault FROM holdfast_checked_chains ORDER BY chain;
