-- name: session_change
INSERT INTO {schema}.sessions AS s
  (id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at, updated_at)
VALUES ($1, $2, $3, coalesce($4, 'initializing'), $5, $6, $7, $8, $9, $10, jsonb_strip_nulls($11::text::jsonb)::text,
        $12, $12)
ON CONFLICT (id) DO UPDATE SET agent = $2, native_id = $3, state = coalesce($4, s.state), cwd = coalesce($5, s.cwd),
  pane = coalesce($6, s.pane), transcript = coalesce($7, s.transcript), title = coalesce($8, s.title),
  last_prompt = coalesce($9, s.last_prompt), last_answer = coalesce($10, s.last_answer),
  facts = jsonb_strip_nulls(s.facts::jsonb || $11::text::jsonb)::text, updated_at = greatest(s.updated_at, $12);

-- name: session_get
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at,
       updated_at
FROM {schema}.sessions WHERE id = $1;

-- name: session_page
-- Newest first, and by id where two changed in the same millisecond.
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at,
       updated_at
FROM {schema}.sessions
WHERE (updated_at, id) < ($1, $2)
  AND ($3::text IS NULL OR agent = $3) AND ($4::text IS NULL OR state = $4)
  AND ($5::text IS NULL OR native_id = $5) AND ($6::text IS NULL OR cwd = $6)
ORDER BY updated_at DESC, id DESC LIMIT $7;

-- name: bookmark_get
SELECT generation, byte_offset FROM {schema}.bookmarks WHERE session = $1 AND file = $2;

-- name: bookmark_put
-- No row changes when the stored bookmark is ahead: another process reads the same file.
INSERT INTO {schema}.bookmarks AS b (session, file, generation, byte_offset, updated_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (session, file) DO UPDATE
SET generation = excluded.generation, byte_offset = excluded.byte_offset, updated_at = excluded.updated_at
WHERE (b.generation, b.byte_offset) <= (excluded.generation, excluded.byte_offset);
