-- name: history_add
INSERT INTO holdfast_history AS h (minute, accepted, delivered, dead, dropped, pending, oldest_pending_s)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (minute) DO UPDATE SET accepted = h.accepted + excluded.accepted, delivered = h.delivered + excluded.delivered,
  dead = h.dead + excluded.dead, dropped = h.dropped + excluded.dropped,
  pending = max(h.pending, excluded.pending), oldest_pending_s = max(h.oldest_pending_s, excluded.oldest_pending_s);

-- name: history_trim
DELETE FROM holdfast_history WHERE minute < ?1;

-- name: history_since
SELECT minute, accepted, delivered, dead, dropped, pending, oldest_pending_s FROM holdfast_history WHERE minute >= ?1 ORDER BY minute;

-- name: contract_hour_add
INSERT INTO holdfast_contract_hours AS h
  (contract, hour, delivered, dead, dropped, failed, latency_ms, delivered_at, failed_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE EXISTS (SELECT 1 FROM holdfast_contracts WHERE id = ?1 AND removed_at IS NULL)
ON CONFLICT (contract, hour) DO UPDATE SET delivered = h.delivered + excluded.delivered, dead = h.dead + excluded.dead,
  dropped = h.dropped + excluded.dropped, failed = h.failed + excluded.failed,
  latency_ms = h.latency_ms + excluded.latency_ms, delivered_at = max(h.delivered_at, excluded.delivered_at),
  failed_at = max(h.failed_at, excluded.failed_at);

-- name: contract_hour_trim
DELETE FROM holdfast_contract_hours WHERE contract = ?1 AND hour > 0 AND hour < ?2;

-- name: contract_hour_forget
DELETE FROM holdfast_contract_hours WHERE contract = ?;

-- name: contract_hours
SELECT contract, hour, delivered, dead, dropped, failed, latency_ms, delivered_at, failed_at
FROM holdfast_contract_hours WHERE contract IN (SELECT value FROM json_each(?1)) AND (hour = 0 OR hour >= ?2)
ORDER BY contract, hour;
