-- name: stream_heads
SELECT id, head, created_at, closed_at FROM {schema}.streams WHERE id = ANY ($1::text[]);

-- name: feed_newest
SELECT n FROM {schema}.events ORDER BY n DESC LIMIT $1;

-- name: feed_snapshot
-- Transactions below the first number have ended; those from the second number on had not begun.
SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() s;

-- name: feed_read
-- Up to the event at which the sum of the sizes reaches the limit. Sizes are read without the bodies.
SELECT n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, address
FROM (
  SELECT *, sum(octet_length(properties) + octet_length(payload))
              OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM {schema}.events WHERE n > $1 AND NOT n = ANY ($2::bigint[]) ORDER BY n LIMIT $3) page
) measured WHERE coalesce(before, 0) < $4 ORDER BY n;
