-- name: contract_put
INSERT INTO holdfast_contracts (id, contract_json, active, source, created_at, updated_at, removed_at)
VALUES (?, ?, ?, ?, ?, ?, NULL)
ON CONFLICT (id) DO UPDATE SET contract_json = excluded.contract_json, active = excluded.active,
  source = excluded.source, updated_at = excluded.updated_at, removed_at = NULL;

-- name: contract_get
SELECT id, contract_json, active, source, created_at FROM holdfast_contracts WHERE id = ? AND removed_at IS NULL;

-- name: contract_all
SELECT id, contract_json, active, source, created_at FROM holdfast_contracts WHERE removed_at IS NULL ORDER BY id;

-- name: contract_changed
-- Including removed contracts, whose rows stay.
SELECT c.id, c.contract_json, c.active, c.source, c.created_at, c.removed_at IS NULL, q.id
FROM holdfast_contracts c LEFT JOIN holdfast_queues q ON q.contract = c.id AND q.contract <> ''
WHERE c.version > ?;

-- name: contract_rewrite
UPDATE holdfast_contracts SET contract_json = ?1, active = 0, updated_at = ?2 WHERE id = ?3 AND removed_at IS NULL;

-- name: contract_touch
UPDATE holdfast_contracts SET updated_at = ? WHERE id = ? AND removed_at IS NULL;

-- name: contract_remove
UPDATE holdfast_contracts SET active = 0, removed_at = ?, updated_at = ? WHERE id = ? AND removed_at IS NULL;

-- name: contract_activate
UPDATE holdfast_contracts SET active = ?, updated_at = ? WHERE id = ? AND removed_at IS NULL AND active <> ?;

-- name: contract_version
SELECT CAST(value AS INTEGER) FROM holdfast_meta WHERE key = 'contracts_version';

-- name: config_digest
SELECT value FROM holdfast_meta WHERE key = 'config_digest';

-- name: config_digest_set
INSERT INTO holdfast_meta (key, value) VALUES ('config_digest', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value;

-- name: contract_bump
UPDATE holdfast_meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'contracts_version';

-- name: secret_clear
DELETE FROM holdfast_secrets WHERE contract = ?;

-- name: secret_add
INSERT INTO holdfast_secrets (contract, secret, created_at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET created_at = excluded.created_at, until = NULL;

-- name: secret_all
SELECT secret, until FROM holdfast_secrets WHERE contract = ? AND (until IS NULL OR until > ?)
ORDER BY until IS NOT NULL, created_at DESC;

-- name: secret_private_keys
SELECT DISTINCT contract FROM holdfast_secrets WHERE secret GLOB 'whsk_*';

-- name: secret_owners
SELECT DISTINCT contract FROM holdfast_secrets WHERE until IS NULL OR until > ?;

-- name: secret_outdate
UPDATE holdfast_secrets SET until = ? WHERE contract = ? AND until IS NULL;

-- name: secret_forget
DELETE FROM holdfast_secrets WHERE until <= ? AND contract = ?;

-- name: header_clear
DELETE FROM holdfast_headers WHERE contract = ?;

-- name: header_add
INSERT INTO holdfast_headers (contract, name, value) VALUES (?, ?, ?);

-- name: header_all
SELECT name, value FROM holdfast_headers WHERE contract = ? ORDER BY name;

-- name: queue_put
INSERT INTO holdfast_queues (contract, address, kind, parked, paused, served_at)
VALUES (?1, ?2, ?3, ?4,
  EXISTS (SELECT 1 FROM holdfast_pauses WHERE (scope = 'contract' AND name = ?1) OR (scope = 'address' AND name = ?2)),
  ?5)
ON CONFLICT (contract) WHERE contract <> '' DO UPDATE SET address = excluded.address, kind = excluded.kind,
  parked = excluded.parked, paused = excluded.paused;

-- name: queue_direct
INSERT INTO holdfast_queues (contract, address, kind, paused, served_at)
VALUES ('', ?1, ?2, EXISTS (SELECT 1 FROM holdfast_pauses WHERE scope = 'address' AND name = ?1), ?3)
ON CONFLICT (address) WHERE contract = '' DO UPDATE SET kind = excluded.kind
RETURNING id;

-- name: queue_park
UPDATE holdfast_queues SET parked = ? WHERE contract = ?;

-- name: queue_all
SELECT id, contract, address, kind, paused, parked, served_at FROM holdfast_queues ORDER BY id;

-- name: queue_pause
UPDATE holdfast_queues SET paused = EXISTS (
  SELECT 1 FROM holdfast_pauses p
  WHERE (p.scope = 'contract' AND p.name = holdfast_queues.contract)
     OR (p.scope = 'address' AND p.name = holdfast_queues.address))
WHERE contract = ?1 OR address = ?1;

-- name: queue_serve
UPDATE holdfast_queues SET served_at = ? WHERE address = ?;

-- name: pause_add
INSERT INTO holdfast_pauses (scope, name, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: pause_remove
DELETE FROM holdfast_pauses WHERE scope = ? AND name = ? RETURNING created_at;

-- name: pause_all
SELECT scope, name, created_at FROM holdfast_pauses ORDER BY scope, name;
