-- name: contract_put
INSERT INTO {schema}.contracts (id, contract_json, active, source, created_at, updated_at, removed_at)
VALUES ($1, $2, $3, $4, $5, $6, NULL)
ON CONFLICT (id) DO UPDATE SET contract_json = excluded.contract_json, active = excluded.active,
  source = excluded.source, updated_at = excluded.updated_at, removed_at = NULL;

-- name: contract_get
SELECT id, contract_json, active, source, created_at FROM {schema}.contracts WHERE id = $1 AND removed_at IS NULL;

-- name: contract_all
SELECT id, contract_json, active, source, created_at FROM {schema}.contracts WHERE removed_at IS NULL ORDER BY id;

-- name: contract_changed
-- Including removed contracts, whose rows stay.
SELECT c.id, c.contract_json, c.active, c.source, c.created_at, c.removed_at IS NULL, q.id
FROM {schema}.contracts c LEFT JOIN {schema}.queues q ON q.contract = c.id AND q.contract <> ''
WHERE c.version > $1;

-- name: contract_rewrite
UPDATE {schema}.contracts SET contract_json = $1, active = false, updated_at = $2 WHERE id = $3 AND removed_at IS NULL;

-- name: contract_touch
UPDATE {schema}.contracts SET updated_at = $1 WHERE id = $2 AND removed_at IS NULL;

-- name: contract_remove
UPDATE {schema}.contracts SET active = false, removed_at = $1, updated_at = $1 WHERE id = $2 AND removed_at IS NULL;

-- name: contract_activate
UPDATE {schema}.contracts SET active = $1, updated_at = $2 WHERE id = $3 AND removed_at IS NULL AND active <> $1;

-- name: contract_version
SELECT value::bigint FROM {schema}.meta WHERE key = 'contracts_version';

-- name: contract_version_held
-- As above, and locks the contracts against changes until the router has committed.
SELECT value::bigint FROM {schema}.meta WHERE key = 'contracts_version' FOR SHARE;

-- name: config_digest
SELECT value FROM {schema}.meta WHERE key = 'config_digest';

-- name: config_digest_set
-- The row is the lock: two daemons that start with different files adopt them one after the other.
INSERT INTO {schema}.meta AS m (key, value) VALUES ('config_digest', $1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE m.value <> excluded.value;

-- name: contract_bump
UPDATE {schema}.meta SET value = (value::bigint + 1)::text WHERE key = 'contracts_version';

-- name: secret_clear
DELETE FROM {schema}.secrets WHERE contract = $1;

-- name: secret_add
INSERT INTO {schema}.secrets (contract, secret, created_at) VALUES ($1, $2, $3)
ON CONFLICT (contract, secret) DO UPDATE SET created_at = excluded.created_at, until = NULL;

-- name: secret_all
SELECT secret, until FROM {schema}.secrets WHERE contract = $1 AND (until IS NULL OR until > $2)
ORDER BY until IS NOT NULL, created_at DESC;

-- name: secret_private_keys
SELECT DISTINCT contract FROM {schema}.secrets WHERE secret LIKE 'whsk\_%';

-- name: secret_owners
SELECT DISTINCT contract FROM {schema}.secrets WHERE until IS NULL OR until > $1;

-- name: secret_outdate
UPDATE {schema}.secrets SET until = $1 WHERE contract = $2 AND until IS NULL;

-- name: secret_forget
DELETE FROM {schema}.secrets WHERE until <= $1 AND contract = $2;

-- name: header_clear
DELETE FROM {schema}.headers WHERE contract = $1;

-- name: header_add
INSERT INTO {schema}.headers (contract, name, value) SELECT $1, * FROM unnest($2::text[], $3::text[]);

-- name: header_all
SELECT name, value FROM {schema}.headers WHERE contract = $1 ORDER BY name;

-- name: queue_put
INSERT INTO {schema}.queues (contract, address, kind, parked, paused, served_at)
VALUES ($1, $2, $3, $4,
  EXISTS (SELECT FROM {schema}.pauses WHERE (scope = 'contract' AND name = $1) OR (scope = 'address' AND name = $2)),
  $5)
ON CONFLICT (contract) WHERE contract <> '' DO UPDATE SET address = excluded.address, kind = excluded.kind,
  parked = excluded.parked, paused = excluded.paused;

-- name: queue_direct
-- Existing queues are only read: updating a row with every message would leave many dead row versions.
WITH wanted AS (
  SELECT * FROM unnest($1::text[], $2::text[]) w(address, kind)
), known AS (
  SELECT q.id, q.address FROM {schema}.queues q JOIN wanted w ON w.address = q.address WHERE q.contract = ''
), made AS (
  INSERT INTO {schema}.queues (contract, address, kind, paused, served_at)
  SELECT '', w.address, w.kind,
         EXISTS (SELECT FROM {schema}.pauses p WHERE p.scope = 'address' AND p.name = w.address), $3
  FROM wanted w WHERE w.address NOT IN (SELECT address FROM known) ORDER BY w.address
  ON CONFLICT (address) WHERE contract = '' DO UPDATE SET kind = excluded.kind RETURNING id, address
)
SELECT address, id FROM known UNION ALL SELECT address, id FROM made;

-- name: queue_park
UPDATE {schema}.queues SET parked = $1 WHERE contract = $2;

-- name: queue_all
SELECT id, contract, address, kind, paused, parked, served_at FROM {schema}.queues ORDER BY id;

-- name: queue_pause
UPDATE {schema}.queues q SET paused = EXISTS (
  SELECT FROM {schema}.pauses p
  WHERE (p.scope = 'contract' AND p.name = q.contract) OR (p.scope = 'address' AND p.name = q.address))
WHERE q.contract = $1 OR q.address = $1;

-- name: queue_serve
UPDATE {schema}.queues SET served_at = $1 WHERE address = ANY ($2::text[]);

-- name: pause_add
INSERT INTO {schema}.pauses (scope, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: pause_remove
DELETE FROM {schema}.pauses WHERE scope = $1 AND name = $2 RETURNING created_at;

-- name: pause_all
SELECT scope, name, created_at FROM {schema}.pauses ORDER BY scope, name;
