-- name: session_change
INSERT INTO holdfast_sessions
  (id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at, updated_at)
VALUES (?1, ?2, ?3, coalesce(?4, 'initializing'), ?5, ?6, ?7, ?8, ?9, ?10, json_patch('{}', ?11), ?12, ?12)
ON CONFLICT (id) DO UPDATE SET agent = ?2, native_id = ?3, state = coalesce(?4, state), cwd = coalesce(?5, cwd),
  pane = coalesce(?6, pane), transcript = coalesce(?7, transcript), title = coalesce(?8, title),
  last_prompt = coalesce(?9, last_prompt), last_answer = coalesce(?10, last_answer),
  facts = json_patch(facts, ?11), updated_at = max(updated_at, ?12);

-- name: session_get
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at,
       updated_at
FROM holdfast_sessions WHERE id = ?;

-- name: session_page
-- Newest first, and by id where two changed in the same millisecond.
SELECT id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, facts, created_at,
       updated_at
FROM holdfast_sessions
WHERE (updated_at, id) < (?1, ?2)
  AND (?3 IS NULL OR agent = ?3) AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR native_id = ?5)
  AND (?6 IS NULL OR cwd = ?6)
ORDER BY updated_at DESC, id DESC LIMIT ?7;

-- name: bookmark_get
SELECT generation, byte_offset FROM holdfast_bookmarks WHERE session = ?1 AND file = ?2;

-- name: bookmark_put
-- No row changes when the stored bookmark is ahead: another process reads the same file.
INSERT INTO holdfast_bookmarks AS b (session, file, generation, byte_offset, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (session, file) DO UPDATE
SET generation = excluded.generation, byte_offset = excluded.byte_offset, updated_at = excluded.updated_at
WHERE (b.generation, b.byte_offset) <= (excluded.generation, excluded.byte_offset);
