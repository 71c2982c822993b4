-- name: gate_reserve
INSERT INTO holdfast_gates (address, next_at_us) VALUES (?1, ?2 + ?3)
ON CONFLICT (address) DO UPDATE SET next_at_us = max(next_at_us, ?2) + ?3
RETURNING next_at_us - ?3 - ?2;

-- name: gate_open
SELECT address, failing_since, open_until, trips FROM holdfast_gates
WHERE open_until IS NOT NULL AND address > ? ORDER BY address LIMIT ?;

-- name: gate_trip
INSERT INTO holdfast_gates (address, failing_since, open_until, trips) VALUES (?1, ?2, ?2 + ?3, 1)
ON CONFLICT (address) DO UPDATE SET failing_since = coalesce(failing_since, ?2), open_until = ?2 + ?3,
  probe_until = NULL, trips = trips + 1
RETURNING address, failing_since, open_until, trips;

-- name: gate_probe
UPDATE holdfast_gates SET probe_until = ?2 + ?3
WHERE address = ?1 AND open_until <= ?2 AND coalesce(probe_until, 0) <= ?2;

-- name: gate_close
UPDATE holdfast_gates SET failing_since = NULL, open_until = NULL, probe_until = NULL, trips = 0
WHERE address = ? AND open_until IS NOT NULL;
