-- name: session_change
INSERT INTO holdfast_sessions
  (id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts, created_at,
   updated_at)
VALUES (?1, ?2, ?3, coalesce(?4, 'initializing'), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, json_patch('{}', ?13), ?15, ?16)
ON CONFLICT (id) DO UPDATE SET agent = ?2, native_id = ?3, state = coalesce(?4, state), cwd = coalesce(?5, cwd),
  pane = coalesce(?6, pane), transcript = coalesce(?7, transcript), title = coalesce(?8, title),
  last_prompt = coalesce(?9, last_prompt), last_answer = coalesce(?10, last_answer),
  name = coalesce(?11, name), host = coalesce(?12, host), facts = json_patch(facts, ?13),
  updated_at = max(updated_at, ?16);

-- name: session_remove
-- The row is written again in the same transaction; its bindings stay.
DELETE FROM holdfast_sessions WHERE id = ?;

-- name: bindings_end
DELETE FROM holdfast_bindings WHERE (origin, channel) IN (
  SELECT value ->> '$.origin', value ->> '$.channel' FROM json_each(?1) WHERE NOT value ->> '$.bound')
  AND session = ?2;

-- name: bindings_begin
INSERT INTO holdfast_bindings (origin, channel, session)
SELECT value ->> '$.origin', value ->> '$.channel', ?2 FROM json_each(?1) WHERE value ->> '$.bound'
ON CONFLICT (origin, channel) DO UPDATE SET session = excluded.session;

-- name: binding_get
SELECT session FROM holdfast_bindings WHERE origin = ?1 AND channel = ?2;

-- name: bindings_of
SELECT origin, channel FROM holdfast_bindings WHERE session = ?1 ORDER BY origin, channel LIMIT ?2;

-- name: session_get
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM holdfast_sessions WHERE id = ?;

-- name: session_count
SELECT state, count(*) FROM holdfast_sessions GROUP BY state;

-- name: session_page_state
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM holdfast_sessions WHERE state = ?3 AND (updated_at, id) < (?1, ?2) ORDER BY updated_at DESC, id DESC LIMIT ?4;

-- name: session_page
-- Newest first, and by id where two changed in the same millisecond.
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts,
       created_at, updated_at
FROM holdfast_sessions
WHERE (updated_at, id) < (?1, ?2)
  AND (?3 IS NULL OR agent = ?3) AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR native_id = ?5)
  AND (?6 IS NULL OR cwd = ?6) AND (?7 IS NULL OR name = ?7)
ORDER BY updated_at DESC, id DESC LIMIT ?8;

-- name: bookmark_get
SELECT generation, byte_offset FROM holdfast_bookmarks WHERE session = ?1 AND file = ?2;

-- name: bookmark_put
-- No row changes when the stored bookmark is ahead: another process reads the same file.
INSERT INTO holdfast_bookmarks AS b (session, file, generation, byte_offset, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (session, file) DO UPDATE
SET generation = excluded.generation, byte_offset = excluded.byte_offset, updated_at = excluded.updated_at
WHERE (b.generation, b.byte_offset) <= (excluded.generation, excluded.byte_offset);

-- name: blob_add
INSERT INTO holdfast_blobs (sha256, data, created_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: blob_keep
UPDATE holdfast_blobs SET created_at = ?1 WHERE sha256 = ?2;

-- name: blob_get
SELECT data FROM holdfast_blobs WHERE sha256 = ?1;

-- name: blob_has
SELECT 1 FROM holdfast_blobs WHERE sha256 = ?1;
