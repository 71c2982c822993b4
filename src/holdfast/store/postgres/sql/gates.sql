-- The first argument is a test's own time, or NULL: the database's clock, the only one that all processes share.

-- name: gate_reserve
-- Reserves the next free moment if it comes within $4. If not, it returns nothing, and gate_wait says how long.
WITH now AS (SELECT coalesce($1::bigint * 1000, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS us)
INSERT INTO {schema}.gates AS g (address, next_at_us) SELECT $2, us + $3::bigint FROM now
ON CONFLICT (address) DO UPDATE SET next_at_us = greatest(g.next_at_us, excluded.next_at_us - $3::bigint) + $3::bigint
  WHERE g.next_at_us <= excluded.next_at_us - $3::bigint + $4::bigint
RETURNING next_at_us - $3::bigint - (SELECT us FROM now);

-- name: gate_wait
SELECT next_at_us - coalesce($1::bigint * 1000, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM {schema}.gates WHERE address = $2;

-- name: gate_open
SELECT address, failing_since, open_until, trips FROM {schema}.gates
WHERE open_until IS NOT NULL AND address > $1 ORDER BY address LIMIT $2;

-- name: gate_trip
WITH now AS (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS ms)
INSERT INTO {schema}.gates AS g (address, failing_since, open_until, trips) SELECT $2, ms, ms + $3::bigint, 1 FROM now
ON CONFLICT (address) DO UPDATE SET failing_since = coalesce(g.failing_since, excluded.failing_since),
  open_until = excluded.open_until, probe_until = NULL, probe_owner = NULL, trips = g.trips + 1
RETURNING address, failing_since, open_until, trips;

-- name: gate_probe
WITH now AS (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS ms)
UPDATE {schema}.gates SET probe_until = now.ms + $3::bigint, probe_owner = $4 FROM now
WHERE address = $2 AND open_until <= now.ms
  AND (coalesce(probe_until, 0) <= now.ms OR probe_owner NOT IN (SELECT {schema}.owners_alive()));

-- name: gate_close
UPDATE {schema}.gates SET failing_since = NULL, open_until = NULL, probe_until = NULL, probe_owner = NULL,
  trips = 0
WHERE address = $1 AND open_until IS NOT NULL;

-- name: quota_lock
-- Two processes that count the same name wait for each other until the end of the transaction.
WITH now AS (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS ms)
INSERT INTO {schema}.quotas AS q (name, minute, taken) VALUES ($2, 0, 0)
ON CONFLICT (name, minute) DO UPDATE SET taken = 0
RETURNING (SELECT ms FROM now);

-- name: quota_forget
-- Minutes that ended more than an hour ago.
DELETE FROM {schema}.quotas WHERE name = $1 AND minute > 0 AND minute < $2::bigint - 60;

-- name: quota_count
SELECT coalesce(sum(taken), 0)::bigint, min(minute) FROM {schema}.quotas WHERE name = $1 AND minute > 0;

-- name: quota_take
INSERT INTO {schema}.quotas AS q (name, minute, taken) VALUES ($1, $2, 1)
ON CONFLICT (name, minute) DO UPDATE SET taken = q.taken + 1;
