-- name: delivery_end
UPDATE holdfast_deliveries
SET state = ?1, reason = ?2, attempts = ?3, settled_at = ?4, survivor = ?6, handed_until = NULL,
    last_error = CASE WHEN ?1 = 'dropped' THEN coalesce(?5, last_error) ELSE ?5 END
WHERE id = ?7;

-- name: delivery_delivered
UPDATE holdfast_deliveries
SET state = 'delivered', reason = NULL, attempts = ?1, settled_at = ?2, survivor = NULL, handed_until = NULL,
    last_error = NULL
WHERE id IN (SELECT value FROM json_each(?3));

-- name: delivery_lanes
SELECT json_group_array(lane) FROM holdfast_deliveries
WHERE id IN (SELECT value FROM json_each(?)) AND lane IS NOT NULL;

-- name: delivery_wait
UPDATE holdfast_deliveries SET attempts = ?, last_error = ?, handed_until = ? WHERE id = ?;

-- name: delivery_lane
SELECT lane FROM holdfast_deliveries WHERE id = ?;

-- name: lane_leave
UPDATE holdfast_lanes SET open = open - 1 WHERE id = ? RETURNING open, paused;

-- name: attempt_add
-- Each an array, in the order of the columns.
INSERT INTO holdfast_attempts (delivery, generation, attempt, started_at, ended_at, outcome, error, detail)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
       json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]')
FROM json_each(?);

-- name: attempt_trim
DELETE FROM holdfast_attempts WHERE delivery = ?1 AND id NOT IN (
  SELECT id FROM holdfast_attempts WHERE delivery = ?1 ORDER BY id DESC LIMIT ?2);

-- name: first_in_lane
SELECT d.id FROM holdfast_lanes l JOIN holdfast_deliveries d ON d.lane = l.id
WHERE l.key = ? AND d.state = 'pending' AND d.lane IS NOT NULL ORDER BY d.pos LIMIT 1;

-- name: handed_make_due
UPDATE holdfast_deliveries SET handed_until = ?1 WHERE id = ?2 AND handed_until > ?1;
