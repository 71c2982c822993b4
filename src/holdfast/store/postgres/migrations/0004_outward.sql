-- What the outside needs: breakers and rates of addresses, headers of contracts, secrets that overlap while they are
-- exchanged, deliveries that may replace one another, and the read model of agent sessions.

-- Rates run on the wall clock in microseconds; a breaker is open while `open_until` is set. One process at a time tries
-- an address whose breaker is open: `probe_owner`, until it ends or `probe_until`.
CREATE TABLE holdfast.gates (
  address       text COLLATE "C" PRIMARY KEY,
  next_at_us    bigint NOT NULL DEFAULT 0,
  failing_since bigint,
  open_until    bigint,
  probe_until   bigint,
  probe_owner   bigint,
  trips         integer NOT NULL DEFAULT 0,
  CHECK ((failing_since IS NULL) = (open_until IS NULL))
);
CREATE INDEX gates_open ON holdfast.gates (open_until) WHERE open_until IS NOT NULL;

-- Apart from the contract, as its secrets are: a header may well hold a password.
CREATE TABLE holdfast.headers (
  contract text COLLATE "C" NOT NULL,
  name     text COLLATE "C" NOT NULL,
  value    text NOT NULL,
  PRIMARY KEY (contract, name)
);

ALTER TABLE holdfast.secrets ADD COLUMN until bigint;   -- NULL: the newest, which has no end yet

ALTER TABLE holdfast.deliveries ADD COLUMN burst text;  -- NULL: never replaced, never evicted

CREATE TABLE holdfast.sessions (
  id          text COLLATE "C" PRIMARY KEY,
  agent       text   NOT NULL,
  native_id   text COLLATE "C" NOT NULL,
  state       text   NOT NULL CHECK (
    state IN ('initializing', 'working', 'idle', 'waiting', 'failed', 'ended', 'closed')),
  cwd         text,
  pane        text,
  transcript  text,
  title       text,
  last_prompt text,
  last_answer text,
  facts       text   NOT NULL DEFAULT '{}',
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL
);
CREATE INDEX sessions_by_native ON holdfast.sessions (native_id);
CREATE INDEX sessions_by_time ON holdfast.sessions (updated_at, id);
