-- name: gate_reserve
-- Reserves the next free moment if it comes within ?4. If not, it returns nothing, and gate_wait says how long.
INSERT INTO holdfast_gates (address, next_at_us) VALUES (?1, ?2 + ?3)
ON CONFLICT (address) DO UPDATE SET next_at_us = max(next_at_us, ?2) + ?3 WHERE next_at_us <= ?2 + ?4
RETURNING next_at_us - ?3 - ?2;

-- name: gate_wait
SELECT next_at_us - ?2 FROM holdfast_gates WHERE address = ?1;

-- name: gate_open
SELECT address, failing_since, open_until, trips FROM holdfast_gates
WHERE open_until IS NOT NULL AND address > ? ORDER BY address LIMIT ?;

-- name: gate_trip
INSERT INTO holdfast_gates (address, failing_since, open_until, trips) VALUES (?1, ?2, ?2 + ?3, 1)
ON CONFLICT (address) DO UPDATE SET failing_since = coalesce(failing_since, ?2), open_until = ?2 + ?3,
  probe_until = NULL, probe_owner = NULL, trips = trips + 1
RETURNING address, failing_since, open_until, trips;

-- name: gate_probe
UPDATE holdfast_gates SET probe_until = ?2 + ?3, probe_owner = ?4
WHERE address = ?1 AND open_until <= ?2
  AND (coalesce(probe_until, 0) <= ?2
       OR probe_owner NOT IN (SELECT id FROM holdfast_owners WHERE ended_at IS NULL AND boot_id = ?5));

-- name: gate_close
UPDATE holdfast_gates SET failing_since = NULL, open_until = NULL, probe_until = NULL, probe_owner = NULL,
  trips = 0
WHERE address = ? AND open_until IS NOT NULL;

-- name: quota_forget
-- Minutes that ended more than an hour ago.
DELETE FROM holdfast_quotas WHERE name = ? AND minute < ? - 60;

-- name: quota_count
SELECT coalesce(sum(taken), 0), min(minute) FROM holdfast_quotas WHERE name = ?;

-- name: quota_take
INSERT INTO holdfast_quotas (name, minute, taken) VALUES (?, ?, 1)
ON CONFLICT (name, minute) DO UPDATE SET taken = taken + 1;
