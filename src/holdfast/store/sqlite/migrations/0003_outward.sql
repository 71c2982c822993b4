-- What the outside needs: breakers and rates of addresses, headers of contracts, secrets that overlap while they are
-- exchanged, deliveries that may replace one another, and the read model of agent sessions.

-- Rates run on the wall clock in microseconds; a breaker is open while `open_until` is set. One process at a time tries
-- an address whose breaker is open: `probe_owner`, until it ends or `probe_until`.
CREATE TABLE holdfast_gates (
  address       TEXT    PRIMARY KEY,
  next_at_us    INTEGER NOT NULL DEFAULT 0,
  failing_since INTEGER,
  open_until    INTEGER,
  probe_until   INTEGER,
  probe_owner   INTEGER,
  trips         INTEGER NOT NULL DEFAULT 0,
  CHECK ((failing_since IS NULL) = (open_until IS NULL))
) WITHOUT ROWID;
CREATE INDEX holdfast_gates_open ON holdfast_gates (open_until) WHERE open_until IS NOT NULL;

-- Apart from the contract, as its secrets are: a header may well hold a password.
CREATE TABLE holdfast_headers (
  contract TEXT NOT NULL,
  name     TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (contract, name)
) WITHOUT ROWID;

ALTER TABLE holdfast_secrets ADD COLUMN until INTEGER;   -- NULL: the newest, which has no end yet

ALTER TABLE holdfast_deliveries ADD COLUMN burst TEXT;  -- NULL: never replaced, never evicted

CREATE TABLE holdfast_sessions (
  id          TEXT    PRIMARY KEY,
  agent       TEXT    NOT NULL,
  native_id   TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (
    state IN ('initializing', 'working', 'idle', 'waiting', 'failed', 'ended', 'closed')),
  cwd         TEXT,
  pane        TEXT,
  transcript  TEXT,
  title       TEXT,
  last_prompt TEXT,
  last_answer TEXT,
  facts       TEXT    NOT NULL DEFAULT '{}',
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_sessions_by_native ON holdfast_sessions (native_id);
CREATE INDEX holdfast_sessions_by_time ON holdfast_sessions (updated_at, id);
