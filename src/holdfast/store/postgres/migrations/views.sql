-- The source systems' names, for people. No code reads these; secrets never appear in them. The path and the query of a
-- URL may hold a token, so of a URL only the host is shown.

CREATE OR REPLACE FUNCTION {schema}.iso(ms bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN to_char(to_timestamp(ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

CREATE VIEW {schema}.hook_outbox AS
  SELECT d.id, substr(e.stream, 9) AS session_id, substr(e.type, 6) AS event_type, e.payload,
         {schema}.iso(e.accepted_at) AS created_at,
         {schema}.iso(r.due_at) AS next_attempt_at,
         d.attempts AS attempt_count, d.last_error,
         CASE WHEN d.state = 'delivered'
              THEN {schema}.iso(d.settled_at) END AS delivered_at,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         d.state, d.reason
  FROM {schema}.deliveries d
  JOIN {schema}.events e ON e.n = d.event
  JOIN {schema}.queues q ON q.id = d.queue
  LEFT JOIN {schema}.ready r ON r.delivery = d.id
  WHERE e.source = 'hook' AND q.kind = 'handler';

CREATE VIEW {schema}.webhook_contracts AS
  SELECT id, CASE WHEN contract_json::json #>> '{target,url}' ~ '^[^:]+://[^/?]*[/?].'
                  THEN jsonb_set(contract_json::jsonb, '{target,url}', to_jsonb(regexp_replace(
                         contract_json::json #>> '{target,url}', '^([^:]+://[^/?]*)[/?].+$', '\1/…')))::text
                  ELSE contract_json END AS contract_json,
         active, source,
         {schema}.iso(created_at) AS created_at,
         {schema}.iso(updated_at) AS updated_at
  FROM {schema}.contracts;

CREATE VIEW {schema}.webhook_outbox AS
  SELECT d.id, nullif(q.contract, '') AS contract_id,
         json_build_object('id', e.id, 'source', e.source, 'type', e.type, 'timestamp', e.timestamp,
                     'properties', e.properties::json, 'payload', e.payload::json)::text AS event_json,
         regexp_replace(q.address, '^([^:]+://[^/?]*)[/?].+$', '\1/…') AS target_url, NULL::text AS target_secret,
         CASE WHEN d.state = 'dead' AND d.reason = 'rejected' THEN 'rejected'
              WHEN d.state = 'dead' THEN 'dead_letter'
              ELSE d.state END AS status,
         d.attempts AS attempt_count,
         {schema}.iso(r.due_at) AS next_attempt_at,
         d.last_error,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         {schema}.iso(d.created_at) AS created_at
  FROM {schema}.deliveries d
  JOIN {schema}.events e ON e.n = d.event
  JOIN {schema}.queues q ON q.id = d.queue
  LEFT JOIN {schema}.ready r ON r.delivery = d.id
  WHERE q.kind = 'https';

CREATE VIEW {schema}.inbound_queue AS
  SELECT d.id, substr(q.address, 9) AS session_id,
         coalesce(e.properties::json ->> 'origin', e.source) AS origin,
         coalesce(e.properties::json ->> 'message_type', 'text') AS message_type,
         coalesce(e.payload::json ->> 'content', '') AS content,
         e.payload::json ->> 'payload' AS payload_json,
         e.properties::json ->> 'actor_id' AS actor_id,
         e.properties::json ->> 'actor_name' AS actor_name,
         e.properties::json ->> 'actor_avatar_url' AS actor_avatar_url,
         CASE WHEN d.state = 'pending' AND r.token IS NOT NULL THEN 'processing'
              WHEN d.state = 'pending' AND d.attempts > 0 AND d.handed_until IS NULL THEN 'failed'
              WHEN d.state = 'dropped' AND d.reason = 'expired' THEN 'expired'
              ELSE d.state END AS status,
         {schema}.iso(d.created_at) AS created_at,
         {schema}.iso(d.settled_at) AS processed_at,
         d.attempts AS attempt_count,
         {schema}.iso(r.due_at) AS next_retry_at,
         d.last_error,
         CASE WHEN r.token IS NOT NULL THEN 'leased' END AS locked_at,
         e.properties::json ->> 'source_message_id' AS source_message_id,
         e.properties::json ->> 'source_channel_id' AS source_channel_id
  FROM {schema}.deliveries d
  JOIN {schema}.events e ON e.n = d.event
  JOIN {schema}.queues q ON q.id = d.queue
  LEFT JOIN {schema}.ready r ON r.delivery = d.id
  WHERE q.kind = 'session';

CREATE VIEW {schema}.run_events AS
  SELECT e.n AS id, e.stream AS run_id, e.seq, e.type AS kind,
         e.properties::json ->> 'node_name' AS node_name, e.payload,
         {schema}.iso(e.accepted_at) AS created_at,
         CASE WHEN c.position >= e.seq
              THEN {schema}.iso(c.updated_at) END AS published_at
  FROM {schema}.events e
  LEFT JOIN {schema}.cursors c ON c.stream = e.stream AND c.reader = 'publisher'
  WHERE e.stream IS NOT NULL;

CREATE VIEW {schema}.run_outbox AS
  SELECT stream AS run_id, position + 1 AS next_seq, position AS last_published_seq,
         {schema}.iso(updated_at) AS updated_at, reader
  FROM {schema}.cursors;

CREATE VIEW {schema}.mirror_pending_receipts AS
  SELECT d.id, coalesce(nullif(q.contract, ''), q.address) AS queue_name, e.payload,
         CASE WHEN d.state = 'dead' THEN 'dlq'
              WHEN d.state = 'pending' AND r.token IS NOT NULL THEN 'in_flight'
              ELSE d.state END AS state,
         d.attempts AS attempt_count,
         coalesce((c.contract_json::json ->> 'attempts')::integer, 24) AS max_attempts,
         {schema}.iso(r.due_at) AS visible_after,
         d.last_error,
         {schema}.iso(d.created_at) AS created_at,
         {schema}.iso(coalesce(d.settled_at, r.due_at, d.created_at))
           AS updated_at
  FROM {schema}.deliveries d
  JOIN {schema}.events e ON e.n = d.event
  JOIN {schema}.queues q ON q.id = d.queue
  JOIN {schema}.contracts c ON c.id = q.contract
  LEFT JOIN {schema}.ready r ON r.delivery = d.id
  WHERE c.contract_json::json ->> 'policy' = 'receipt';

CREATE VIEW {schema}.substrate_receipts AS
  SELECT s.chain_seq AS id, s.id AS receipt_id, s.chain_seq, s.source_system, s.source_table, s.source_id,
         s.action_type, s.source_version, s.tenant_id, s.actor_id, s.actor_kind, s.input_hash, s.output_hash,
         s.references_json, encode(r.prev, 'hex') AS prev_receipt_h_self, encode(r.h_self, 'hex') AS h_self,
         {schema}.iso(r.at) AS at,
         {schema}.iso(r.at) AS created_at
  FROM {schema}.substrate s JOIN {schema}.receipts r ON r.chain = 'substrate' AND r.seq = s.chain_seq;
