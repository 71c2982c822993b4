-- name: session_change
-- One statement for the row and its bindings, so that a settle needs no more round trips than for the row alone.
WITH changed AS (
  SELECT origin, channel, bound FROM jsonb_to_recordset($14::text::jsonb) AS b(origin text, channel text, bound boolean)
), ended AS (
  DELETE FROM {schema}.bindings b USING changed c
  WHERE NOT c.bound AND b.origin = c.origin AND b.channel = c.channel AND b.session = $1
), begun AS (
  INSERT INTO {schema}.bindings (origin, channel, session) SELECT origin, channel, $1 FROM changed WHERE bound
  ON CONFLICT (origin, channel) DO UPDATE SET session = excluded.session
)
INSERT INTO {schema}.sessions AS s
  (id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts, created_at,
   updated_at)
VALUES ($1, $2, $3, coalesce($4, 'initializing'), $5, $6, $7, $8, $9, $10, $11, $12,
        jsonb_strip_nulls($13::text::jsonb)::text, $15, $16)
ON CONFLICT (id) DO UPDATE SET agent = $2, native_id = $3, state = coalesce($4, s.state), cwd = coalesce($5, s.cwd),
  pane = coalesce($6, s.pane), transcript = coalesce($7, s.transcript), title = coalesce($8, s.title),
  last_prompt = coalesce($9, s.last_prompt), last_answer = coalesce($10, s.last_answer),
  name = coalesce($11, s.name), host = coalesce($12, s.host),
  facts = jsonb_strip_nulls(s.facts::jsonb || $13::text::jsonb || coalesce(
    (SELECT jsonb_object_agg(f.key, (s.facts::jsonb -> f.key) || f.value) FROM jsonb_each($13::text::jsonb) f
     WHERE jsonb_typeof(f.value) = 'object' AND jsonb_typeof(s.facts::jsonb -> f.key) = 'object'), '{}'))::text,
  updated_at = greatest(s.updated_at, $16);

-- name: session_remove
-- The row is written again in the same transaction; its bindings stay.
DELETE FROM {schema}.sessions WHERE id = $1;

-- name: binding_get
SELECT session FROM {schema}.bindings WHERE origin = $1 AND channel = $2;

-- name: bindings_of
SELECT origin, channel FROM {schema}.bindings WHERE session = $1 ORDER BY origin, channel LIMIT $2;

-- name: session_get
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM {schema}.sessions WHERE id = $1;

-- name: session_count
SELECT state, count(*) FROM {schema}.sessions GROUP BY state;

-- name: session_page_state
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM {schema}.sessions WHERE state = $3 AND (updated_at, id) < ($1, $2) ORDER BY updated_at DESC, id DESC LIMIT $4;

-- name: session_page
-- Newest first, and by id where two changed in the same millisecond.
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM {schema}.sessions
WHERE (updated_at, id) < ($1, $2)
  AND ($3::text IS NULL OR agent = $3) AND ($4::text IS NULL OR state = $4)
  AND ($5::text IS NULL OR native_id = $5) AND ($6::text IS NULL OR cwd = $6)
  AND ($7::text IS NULL OR name = $7)
ORDER BY updated_at DESC, id DESC LIMIT $8;

-- name: bookmark_get
SELECT generation, byte_offset FROM {schema}.bookmarks WHERE session = $1 AND file = $2;

-- name: bookmark_put
-- No row changes when the stored bookmark is ahead: another process reads the same file.
INSERT INTO {schema}.bookmarks AS b (session, file, generation, byte_offset, updated_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (session, file) DO UPDATE
SET generation = excluded.generation, byte_offset = excluded.byte_offset, updated_at = excluded.updated_at
WHERE (b.generation, b.byte_offset) <= (excluded.generation, excluded.byte_offset);

-- name: blob_add
INSERT INTO {schema}.blobs (sha256, data, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: blob_keep
UPDATE {schema}.blobs SET created_at = $1 WHERE sha256 = $2;

-- name: blob_get
SELECT data FROM {schema}.blobs WHERE sha256 = $1;

-- name: blob_has
SELECT 1 FROM {schema}.blobs WHERE sha256 = $1;
