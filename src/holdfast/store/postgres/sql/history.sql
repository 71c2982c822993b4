-- name: history_add
INSERT INTO {schema}.history AS h (minute, accepted, delivered, dead, dropped, pending, oldest_pending_s)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (minute) DO UPDATE SET accepted = h.accepted + excluded.accepted, delivered = h.delivered + excluded.delivered,
  dead = h.dead + excluded.dead, dropped = h.dropped + excluded.dropped,
  pending = greatest(h.pending, excluded.pending), oldest_pending_s = greatest(h.oldest_pending_s, excluded.oldest_pending_s);

-- name: history_trim
DELETE FROM {schema}.history WHERE minute < $1;

-- name: history_since
SELECT minute, accepted, delivered, dead, dropped, pending, oldest_pending_s FROM {schema}.history WHERE minute >= $1 ORDER BY minute;

-- name: contract_hour_add
INSERT INTO {schema}.contract_hours AS h
  (contract, hour, delivered, dead, dropped, failed, latency_ms, delivered_at, failed_at)
SELECT $1::text, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint
WHERE EXISTS (SELECT FROM {schema}.contracts WHERE id = $1 AND removed_at IS NULL)
ON CONFLICT (contract, hour) DO UPDATE SET delivered = h.delivered + excluded.delivered, dead = h.dead + excluded.dead,
  dropped = h.dropped + excluded.dropped, failed = h.failed + excluded.failed,
  latency_ms = h.latency_ms + excluded.latency_ms, delivered_at = greatest(h.delivered_at, excluded.delivered_at),
  failed_at = greatest(h.failed_at, excluded.failed_at);

-- name: contract_hour_trim
DELETE FROM {schema}.contract_hours WHERE contract = $1 AND hour > 0 AND hour < $2;

-- name: contract_hour_forget
DELETE FROM {schema}.contract_hours WHERE contract = $1;

-- name: contract_hours
SELECT contract, hour, delivered, dead, dropped, failed, latency_ms, delivered_at, failed_at
FROM {schema}.contract_hours WHERE contract = ANY ($1::text[]) AND (hour = 0 OR hour >= $2)
ORDER BY contract, hour;
