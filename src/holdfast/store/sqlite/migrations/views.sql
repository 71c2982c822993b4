-- The source systems' names, for people. No code reads these; secrets never appear in them. The path and the query of a
-- URL may hold a token, so of a URL only the host is shown.

CREATE VIEW hook_outbox AS
  SELECT d.id, substr(e.stream, 9) AS session_id, substr(e.type, 6) AS event_type, e.payload,
         strftime('%Y-%m-%dT%H:%M:%fZ', e.accepted_at / 1000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.due_at / 1000.0, 'unixepoch') AS next_attempt_at,
         d.attempts AS attempt_count, d.last_error,
         CASE WHEN d.state = 'delivered'
              THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.settled_at / 1000.0, 'unixepoch') END AS delivered_at,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         d.state, d.reason
  FROM holdfast_deliveries d
  JOIN holdfast_events e ON e.n = d.event
  JOIN holdfast_queues q ON q.id = d.queue
  LEFT JOIN holdfast_ready r ON r.delivery = d.id
  WHERE e.source = 'hook' AND q.kind = 'handler';

CREATE VIEW webhook_contracts AS
  SELECT id, CASE WHEN behind GLOB '*/?*/'
                  THEN json_set(contract_json, '$.target.url',
                                substr(url, 1, instr(url, '://') + 1 + instr(behind, '/')) || '/…')
                  ELSE contract_json END AS contract_json,
         active, source,
         strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at
  FROM (SELECT *, replace(substr(url, instr(url, '://') + 3), '?', '/') || '/' AS behind
        FROM (SELECT *, json_extract(contract_json, '$.target.url') AS url FROM holdfast_contracts));

CREATE VIEW webhook_outbox AS
  SELECT d.id, nullif(q.contract, '') AS contract_id,
         json_object('id', e.id, 'source', e.source, 'type', e.type, 'timestamp', e.timestamp,
                     'properties', json(e.properties), 'payload', json(e.payload)) AS event_json,
         substr(q.address, 1, instr(q.address, '://') + 1 + instr(q.behind, '/'))
           || CASE WHEN q.behind GLOB '*/?*/' THEN '/…' ELSE '' END AS target_url,
         NULL AS target_secret,
         CASE WHEN d.state = 'dead' AND d.reason = 'rejected' THEN 'rejected'
              WHEN d.state = 'dead' THEN 'dead_letter'
              ELSE d.state END AS status,
         d.attempts AS attempt_count,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.due_at / 1000.0, 'unixepoch') AS next_attempt_at,
         d.last_error,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', d.created_at / 1000.0, 'unixepoch') AS created_at
  FROM holdfast_deliveries d
  JOIN holdfast_events e ON e.n = d.event
  JOIN (SELECT *, replace(substr(address, instr(address, '://') + 3), '?', '/') || '/' AS behind
        FROM holdfast_queues) q ON q.id = d.queue
  LEFT JOIN holdfast_ready r ON r.delivery = d.id
  WHERE q.kind = 'https';

CREATE VIEW inbound_queue AS
  SELECT d.id, substr(q.address, 9) AS session_id,
         coalesce(json_extract(e.properties, '$.origin'), e.source) AS origin,
         coalesce(json_extract(e.properties, '$.message_type'), 'text') AS message_type,
         coalesce(json_extract(e.payload, '$.content'), '') AS content,
         json_extract(e.payload, '$.payload') AS payload_json,
         json_extract(e.properties, '$.actor_id') AS actor_id,
         json_extract(e.properties, '$.actor_name') AS actor_name,
         json_extract(e.properties, '$.actor_avatar_url') AS actor_avatar_url,
         CASE WHEN d.state = 'pending' AND r.token IS NOT NULL THEN 'processing'
              WHEN d.state = 'pending' AND d.attempts > 0 AND d.handed_until IS NULL THEN 'failed'
              WHEN d.state = 'dropped' AND d.reason = 'expired' THEN 'expired'
              ELSE d.state END AS status,
         strftime('%Y-%m-%dT%H:%M:%fZ', d.created_at / 1000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', d.settled_at / 1000.0, 'unixepoch') AS processed_at,
         d.attempts AS attempt_count,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.due_at / 1000.0, 'unixepoch') AS next_retry_at,
         d.last_error,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         json_extract(e.properties, '$.source_message_id') AS source_message_id,
         json_extract(e.properties, '$.source_channel_id') AS source_channel_id
  FROM holdfast_deliveries d
  JOIN holdfast_events e ON e.n = d.event
  JOIN holdfast_queues q ON q.id = d.queue
  LEFT JOIN holdfast_ready r ON r.delivery = d.id
  WHERE q.kind = 'session';

CREATE VIEW run_events AS
  SELECT e.n AS id, e.stream AS run_id, e.seq, e.type AS kind,
         json_extract(e.properties, '$.node_name') AS node_name, e.payload,
         strftime('%Y-%m-%dT%H:%M:%fZ', e.accepted_at / 1000.0, 'unixepoch') AS created_at,
         CASE WHEN c.position >= e.seq
              THEN strftime('%Y-%m-%dT%H:%M:%fZ', c.updated_at / 1000.0, 'unixepoch') END AS published_at
  FROM holdfast_events e
  LEFT JOIN holdfast_cursors c ON c.stream = e.stream AND c.reader = 'publisher'
  WHERE e.stream IS NOT NULL;

CREATE VIEW run_outbox AS
  SELECT stream AS run_id, position + 1 AS next_seq, position AS last_published_seq,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updated_at, reader
  FROM holdfast_cursors;

CREATE VIEW mirror_pending_receipts AS
  SELECT d.id, coalesce(nullif(q.contract, ''), q.address) AS queue_name, e.payload,
         CASE WHEN d.state = 'dead' THEN 'dlq'
              WHEN d.state = 'pending' AND r.token IS NOT NULL THEN 'in_flight'
              ELSE d.state END AS state,
         d.attempts AS attempt_count,
         coalesce(json_extract(c.contract_json, '$.attempts'), 24) AS max_attempts,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.due_at / 1000.0, 'unixepoch') AS visible_after,
         d.last_error,
         strftime('%Y-%m-%dT%H:%M:%fZ', d.created_at / 1000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(d.settled_at, r.due_at, d.created_at) / 1000.0, 'unixepoch')
           AS updated_at
  FROM holdfast_deliveries d
  JOIN holdfast_events e ON e.n = d.event
  JOIN holdfast_queues q ON q.id = d.queue
  JOIN holdfast_contracts c ON c.id = q.contract
  LEFT JOIN holdfast_ready r ON r.delivery = d.id
  WHERE json_extract(c.contract_json, '$.policy') = 'receipt';

CREATE VIEW substrate_receipts AS
  SELECT s.chain_seq AS id, s.id AS receipt_id, s.chain_seq, s.source_system, s.source_table, s.source_id,
         s.action_type, s.source_version, s.tenant_id, s.actor_id, s.actor_kind, s.input_hash, s.output_hash,
         s.references_json, lower(hex(r.prev)) AS prev_receipt_h_self, lower(hex(r.h_self)) AS h_self,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.at / 1000.0, 'unixepoch') AS at,
         strftime('%Y-%m-%dT%H:%M:%fZ', r.at / 1000.0, 'unixepoch') AS created_at
  FROM holdfast_substrate s JOIN holdfast_receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq;
