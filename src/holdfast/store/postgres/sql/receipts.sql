-- name: receipt_ends
-- Where each chain ends: as recorded, and its last link. Chains that are recorded nowhere are found too.
WITH RECURSIVE found (chain) AS (
  SELECT min(chain) FROM {schema}.receipts
  UNION ALL
  SELECT (SELECT min(r.chain) FROM {schema}.receipts r WHERE r.chain > found.chain) FROM found
  WHERE found.chain IS NOT NULL)
SELECT c.chain, n.seq, n.head,
       (SELECT r.seq FROM {schema}.receipts r WHERE r.chain = c.chain ORDER BY r.seq DESC LIMIT 1)
FROM (SELECT chain FROM found WHERE chain IS NOT NULL UNION SELECT chain FROM {schema}.nodes) c
LEFT JOIN {schema}.nodes n ON n.chain = c.chain
ORDER BY c.chain;

-- name: receipt_rows
SELECT chain, seq, at, prev, root, h_self, leaves FROM {schema}.receipts
WHERE chain = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT $4;

-- name: node_shared
-- The chain that all processes share.
INSERT INTO {schema}.nodes (chain) VALUES ('substrate') ON CONFLICT DO NOTHING;

-- name: substrate_known
-- The receipt of a source tuple.
SELECT s.id, s.chain_seq, r.h_self, r.at, r.leaves
FROM {schema}.substrate s LEFT JOIN {schema}.receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq
WHERE s.source_system = $1 AND s.source_table = $2 AND s.source_id = $3 AND s.action_type = $4
  AND s.source_version = $5;

-- name: substrate_taken
SELECT 1 FROM {schema}.receipts WHERE chain = 'substrate' AND seq = $1
UNION ALL
SELECT 1 FROM {schema}.substrate WHERE chain_seq = $1;

-- name: substrate_add
INSERT INTO {schema}.substrate (chain_seq, id, source_system, source_table, source_id, action_type, source_version,
                                tenant_id, actor_id, actor_kind, input_hash, output_hash, references_json)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: substrate_page
SELECT s.chain_seq, s.id, s.source_system, s.source_table, s.source_id, s.action_type, s.source_version, s.tenant_id,
       s.actor_id, s.actor_kind, s.input_hash, s.output_hash, s.references_json, r.at, r.prev, r.h_self
FROM {schema}.substrate s LEFT JOIN {schema}.receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq
WHERE s.chain_seq > $1 AND s.chain_seq <= $2
  AND ($3::text IS NULL OR s.source_system = $3) AND ($4::text IS NULL OR s.source_table = $4)
  AND ($5::text IS NULL OR s.source_id = $5) AND ($6::text IS NULL OR s.action_type = $6)
  AND ($7::text IS NULL OR s.tenant_id = $7)
ORDER BY s.chain_seq LIMIT $8;

-- name: delivery_statuses
-- One statement, so that the heads and the rows are of the same moment. Rows with an id of 0 are heads.
(SELECT 0::bigint, n.seq, 0, n.chain, NULL, NULL FROM {schema}.nodes n)
UNION ALL
(SELECT d.id, d.generation, d.attempts, d.state, d.reason, e.id
 FROM {schema}.deliveries d LEFT JOIN {schema}.events e ON e.n = d.event
 WHERE d.id > $1 ORDER BY d.id LIMIT $2);

-- name: operator_state
-- One statement, so that the heads and the rows are of the same moment.
SELECT 'chain', chain, NULL, seq FROM {schema}.nodes
UNION ALL
SELECT 'contract', id, encode(sha256(convert_to(contract_json, 'UTF8')), 'hex'),
       active::int + CASE WHEN removed_at IS NULL THEN 0 ELSE 2 END FROM {schema}.contracts
UNION ALL
SELECT 'token', id, scope, (revoked_at IS NOT NULL)::int FROM {schema}.tokens
UNION ALL
SELECT 'pause', scope, name, created_at FROM {schema}.pauses;

-- name: delivery_span
SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM {schema}.deliveries;

-- name: checked_put
INSERT INTO {schema}.checked_chains (chain, checked_at, checked_to, faults, fault) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (chain) DO UPDATE SET checked_at = excluded.checked_at, checked_to = excluded.checked_to,
  faults = excluded.faults, fault = excluded.fault;

-- name: checked_forget
DELETE FROM {schema}.checked_chains;

-- name: checked_all
SELECT chain, checked_at, checked_to, faults, fault FROM {schema}.checked_chains ORDER BY chain;
