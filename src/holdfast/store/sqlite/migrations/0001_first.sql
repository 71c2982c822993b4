-- The first schema. Times named *_at are UTC milliseconds. Leases run on the boot clock, which cannot be set.
-- There are no foreign keys: every row is written by a statement in sql/, and constraint checks would only slow
-- retention down. The test suite checks for orphaned rows instead.

CREATE TABLE holdfast_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO holdfast_meta (key, value) VALUES ('contracts_version', '1'), ('epoch', lower(hex(randomblob(8))));

-- Events -----------------------------------------------------------------------------------------------------

-- A number is never used twice, even after the newest rows were pruned: an insert continues after the router's position if
-- that is past the last row. AUTOINCREMENT would do the same, and write another page for every event.
CREATE TABLE holdfast_events (
  n           INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  stream      TEXT,                                   -- NULL: the event is its own stream
  seq         INTEGER NOT NULL DEFAULT 1 CHECK (seq >= 1),
  source      TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  timestamp   TEXT    NOT NULL,
  accepted_at INTEGER NOT NULL,
  properties  TEXT    NOT NULL DEFAULT '{}',
  payload     TEXT    NOT NULL DEFAULT 'null',
  dedup_key   TEXT,
  address     TEXT,                                   -- `to`: a direct address
  not_before  INTEGER,
  CHECK (stream IS NOT NULL OR seq = 1),
  CHECK (not_before IS NULL OR stream IS NULL)
);
CREATE UNIQUE INDEX holdfast_events_by_stream ON holdfast_events (stream, seq) WHERE stream IS NOT NULL;

-- An event is a fact: it is inserted and, after its retention, deleted. Nothing changes it.
CREATE TRIGGER holdfast_events_fixed BEFORE UPDATE ON holdfast_events BEGIN
  SELECT RAISE(ABORT, 'holdfast: an event cannot be changed');
END;

CREATE TABLE holdfast_streams (
  id         TEXT    PRIMARY KEY,
  head       INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  closed_at  INTEGER,
  emptied_at INTEGER,                                 -- when retention removed its last event; the row is kept longer
  archived   INTEGER NOT NULL DEFAULT 0               -- an archive holds the stored events up to this `seq`
) WITHOUT ROWID;
CREATE INDEX holdfast_streams_emptied ON holdfast_streams (emptied_at) WHERE emptied_at IS NOT NULL;

CREATE TABLE holdfast_dedup (
  source     TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  event_id   TEXT    NOT NULL,
  stream     TEXT,
  seq        INTEGER NOT NULL,
  digest     TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (source, key)
) WITHOUT ROWID;

-- Events that no contract matched and that name no direct address.
CREATE TABLE holdfast_unmatched (event INTEGER PRIMARY KEY);

-- Counts that `status` shows, kept by the statements that change them so that no table has to be scanned. `events` and
-- `unmatched` cover events that were routed and are still stored; the router's backlog follows from its position.
CREATE TABLE holdfast_counts (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  events    INTEGER NOT NULL,
  unmatched INTEGER NOT NULL,
  streams   INTEGER NOT NULL
);
INSERT INTO holdfast_counts (one, events, unmatched, streams) VALUES (1, 0, 0, 0);

CREATE TRIGGER holdfast_streams_added AFTER INSERT ON holdfast_streams BEGIN
  UPDATE holdfast_counts SET streams = streams + 1;
END;

CREATE TRIGGER holdfast_streams_removed AFTER DELETE ON holdfast_streams BEGIN
  UPDATE holdfast_counts SET streams = streams - 1;
END;

-- The router's position: one number instead of a row for every event that waits. A file has one writer, so events
-- commit in the order of their numbers, and none is used again: every event after `place` waits.
CREATE TABLE holdfast_router (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  place INTEGER NOT NULL CHECK (place >= 0)           -- every event up to this number was routed
);
INSERT INTO holdfast_router (one, place) VALUES (1, 0);

-- Events at or before the router's position that an operator sent to the router again.
CREATE TABLE holdfast_again (event INTEGER PRIMARY KEY);

CREATE VIEW holdfast_unrouted AS
  SELECT event FROM holdfast_again
  UNION ALL
  SELECT n FROM holdfast_events WHERE n > (SELECT place FROM holdfast_router);

-- The door: one INSERT from any language, in any transaction. Only `type` is required.
CREATE VIEW holdfast_publish AS
  SELECT id, type, payload, source, stream, timestamp, properties, dedup_key, address AS "to",
         not_before, accepted_at, NULL AS digest
  FROM holdfast_events;

CREATE TRIGGER holdfast_publish_door INSTEAD OF INSERT ON holdfast_publish
BEGIN
  SELECT RAISE(ABORT, 'holdfast: type is missing or longer than 255 characters')
    WHERE new.type IS NULL OR length(new.type) NOT BETWEEN 1 AND 255;
  SELECT RAISE(ABORT, 'holdfast: payload is not JSON')
    WHERE new.payload IS NOT NULL AND NOT json_valid(new.payload);
  SELECT RAISE(ABORT, 'holdfast: properties is not a JSON object')
    WHERE new.properties IS NOT NULL
      AND (NOT json_valid(new.properties) OR json_type(new.properties) <> 'object');
  SELECT RAISE(ABORT, 'holdfast: to is not an address: use https://…, handler:NAME or session:NAME, the scheme in lower case')
    WHERE new."to" IS NOT NULL AND new."to" NOT GLOB 'https://?*' AND new."to" NOT GLOB 'http://?*'
      AND new."to" NOT GLOB 'handler:?*' AND new."to" NOT GLOB 'session:?*';
  SELECT RAISE(ABORT, 'holdfast: not_before cannot be combined with stream')
    WHERE new.not_before IS NOT NULL AND new.stream IS NOT NULL;
  SELECT RAISE(ABORT, 'holdfast: stream is closed')
    WHERE EXISTS (SELECT 1 FROM holdfast_streams WHERE id = new.stream AND closed_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM holdfast_events WHERE id = new.id)  -- an event accepted before may be repeated
      AND NOT EXISTS (SELECT 1 FROM holdfast_dedup
                      WHERE source = coalesce(new.source, 'app') AND key = new.dedup_key);
  SELECT RAISE(ABORT, 'holdfast: dedup_key was used with another body')
    WHERE new.dedup_key IS NOT NULL AND EXISTS (
      SELECT 1 FROM holdfast_dedup d LEFT JOIN holdfast_events e ON e.id = d.event_id
      WHERE d.source = coalesce(new.source, 'app') AND d.key = new.dedup_key
        AND CASE
          WHEN d.digest IS NOT NULL AND new.digest IS NOT NULL THEN d.digest <> new.digest
          WHEN e.id IS NULL THEN 0
          ELSE e.type <> new.type OR e.stream IS NOT new.stream OR e.payload <> coalesce(new.payload, 'null')
        END);
  INSERT INTO holdfast_streams (id, head, created_at)
    SELECT new.stream, 1, coalesce(new.accepted_at, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
    WHERE new.stream IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM holdfast_events WHERE id = new.id)
      AND NOT EXISTS (SELECT 1 FROM holdfast_dedup
                      WHERE source = coalesce(new.source, 'app') AND key = new.dedup_key)
    ON CONFLICT (id) DO UPDATE SET head = head + 1;
  INSERT INTO holdfast_events
      (n, id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
    SELECT
      (SELECT place + 1 FROM holdfast_router WHERE place > coalesce((SELECT max(n) FROM holdfast_events), 0)),
      coalesce(new.id, printf('evt_%012x', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
                       || lower(hex(randomblob(10)))),
      new.stream,
      coalesce((SELECT head FROM holdfast_streams WHERE id = new.stream), 1),
      coalesce(new.source, 'app'),
      new.type,
      coalesce(new.timestamp, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
      coalesce(new.accepted_at, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
      coalesce(new.properties, '{}'),
      coalesce(new.payload, 'null'),
      new.dedup_key,
      new."to",
      new.not_before
    WHERE NOT EXISTS (SELECT 1 FROM holdfast_events WHERE id = new.id)
      AND NOT EXISTS (SELECT 1 FROM holdfast_dedup
                      WHERE source = coalesce(new.source, 'app') AND key = new.dedup_key);
  -- After a duplicate, last_insert_rowid() is an older event whose key is stored already: nothing changes.
  INSERT INTO holdfast_dedup (source, key, event_id, stream, seq, digest, created_at)
    SELECT source, dedup_key, id, stream, seq, new.digest, accepted_at FROM holdfast_events
    WHERE n = last_insert_rowid() AND source = coalesce(new.source, 'app') AND dedup_key = new.dedup_key
    ON CONFLICT DO NOTHING;
END;

-- Contracts --------------------------------------------------------------------------------------------------

CREATE TABLE holdfast_contracts (
  id            TEXT    PRIMARY KEY,
  contract_json TEXT    NOT NULL,
  active        INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  source        TEXT    NOT NULL CHECK (source IN ('config', 'api', 'programmatic')),
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  removed_at    INTEGER,
  version       INTEGER NOT NULL DEFAULT 0            -- the `contracts_version` that its last change belongs to
) WITHOUT ROWID;
CREATE INDEX holdfast_contracts_by_version ON holdfast_contracts (version);

-- A process that keeps contracts in memory reads only those changed since the version it has seen. Triggers set
-- `version`, so no statement can forget to. Each change is followed by an increment of `contracts_version` in the same
-- transaction, so the version of a change is the present one plus one.
CREATE TRIGGER holdfast_contracts_added AFTER INSERT ON holdfast_contracts BEGIN
  UPDATE holdfast_contracts
  SET version = 1 + (SELECT CAST(value AS INTEGER) FROM holdfast_meta WHERE key = 'contracts_version')
  WHERE id = NEW.id;
END;

CREATE TRIGGER holdfast_contracts_changed AFTER UPDATE OF updated_at ON holdfast_contracts BEGIN
  UPDATE holdfast_contracts
  SET version = 1 + (SELECT CAST(value AS INTEGER) FROM holdfast_meta WHERE key = 'contracts_version')
  WHERE id = NEW.id;
END;

-- Separate from the contract, so that no view, dump or response includes a secret by accident.
CREATE TABLE holdfast_secrets (
  contract   TEXT    NOT NULL,
  secret     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  until      INTEGER,                                 -- NULL: the newest secret, which has no end yet
  PRIMARY KEY (contract, secret)
) WITHOUT ROWID;

-- Separate like the secrets: a header may hold a password.
CREATE TABLE holdfast_headers (
  contract TEXT NOT NULL,
  name     TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (contract, name)
) WITHOUT ROWID;

-- A queue holds the deliveries of one contract or of one direct address. Pausing it updates one row, whatever its
-- length.
CREATE TABLE holdfast_queues (
  id        INTEGER PRIMARY KEY,
  contract  TEXT    NOT NULL DEFAULT '',
  address   TEXT    NOT NULL,
  kind      TEXT    NOT NULL CHECK (kind GLOB '[a-z]*'),
  paused    INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  parked    INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
  served_at INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX holdfast_queues_by_contract ON holdfast_queues (contract) WHERE contract <> '';
CREATE UNIQUE INDEX holdfast_queues_by_address ON holdfast_queues (address) WHERE contract = '';

-- Pauses by name, so that a queue or lane created later is paused too.
CREATE TABLE holdfast_pauses (
  scope      TEXT    NOT NULL CHECK (scope IN ('contract', 'address', 'lane')),
  name       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- Deliveries -------------------------------------------------------------------------------------------------

CREATE TABLE holdfast_lanes (
  id     INTEGER PRIMARY KEY,
  key    TEXT    NOT NULL UNIQUE,
  tail   INTEGER NOT NULL,
  open   INTEGER NOT NULL CHECK (open >= 0),
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1))
);

CREATE TABLE holdfast_deliveries (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  event        INTEGER NOT NULL,
  queue        INTEGER NOT NULL,
  lane         INTEGER,
  pos          INTEGER,
  state        TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
  reason       TEXT,
  attempts     INTEGER NOT NULL DEFAULT 0,
  generation   INTEGER NOT NULL DEFAULT 1,
  handed_until INTEGER,
  survivor     INTEGER,
  created_at   INTEGER NOT NULL,
  settled_at   INTEGER,
  last_error   TEXT,
  burst        TEXT,                                  -- NULL: never replaced by a newer delivery, never evicted
  CHECK ((lane IS NULL) = (pos IS NULL)),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((state IN ('dead', 'dropped')) = (reason IS NOT NULL)),
  CHECK (handed_until IS NULL OR state = 'pending')
);
CREATE UNIQUE INDEX holdfast_deliveries_by_event ON holdfast_deliveries (event, queue);
CREATE INDEX holdfast_deliveries_by_lane ON holdfast_deliveries (lane, pos) WHERE state = 'pending' AND lane IS NOT NULL;
CREATE INDEX holdfast_deliveries_dead ON holdfast_deliveries (id) WHERE state = 'dead';
CREATE INDEX holdfast_deliveries_dead_by_queue ON holdfast_deliveries (queue, id, event, reason) WHERE state = 'dead';
CREATE INDEX holdfast_deliveries_handed ON holdfast_deliveries (handed_until) WHERE handed_until IS NOT NULL;

-- The deliveries that can be claimed: every unordered one and the head of each lane, nothing else.
CREATE TABLE holdfast_ready (
  delivery    INTEGER PRIMARY KEY,
  queue       INTEGER NOT NULL,
  due_at      INTEGER NOT NULL,
  starts      INTEGER NOT NULL DEFAULT 0,
  owner       INTEGER,
  token       INTEGER,
  lease_until INTEGER,                                -- boot clock, milliseconds
  CHECK ((token IS NULL) = (owner IS NULL) AND (token IS NULL) = (lease_until IS NULL))
);
CREATE INDEX holdfast_ready_due ON holdfast_ready (queue, due_at, delivery) WHERE token IS NULL;
CREATE INDEX holdfast_ready_suspects ON holdfast_ready (queue, due_at) WHERE token IS NULL AND starts >= 2;
CREATE INDEX holdfast_ready_leased ON holdfast_ready (token) WHERE token IS NOT NULL;

CREATE TABLE holdfast_attempts (
  id         INTEGER PRIMARY KEY,
  delivery   INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  outcome    TEXT    NOT NULL,
  error      TEXT,
  detail     TEXT
);
CREATE INDEX holdfast_attempts_by_delivery ON holdfast_attempts (delivery, id);

-- Rate limits and circuit breakers of addresses. Rates run on the wall clock, in microseconds. A breaker is open while
-- `open_until` is set. One process at a time probes an address whose breaker is open: `probe_owner`, until that process
-- ends or `probe_until` has passed.
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

-- Hourly limits: how many were counted of each name, per minute of the wall clock.
CREATE TABLE holdfast_quotas (
  name   TEXT    NOT NULL,
  minute INTEGER NOT NULL,
  taken  INTEGER NOT NULL,
  PRIMARY KEY (name, minute)
) WITHOUT ROWID;

-- Readers and consumers --------------------------------------------------------------------------------------

CREATE TABLE holdfast_cursors (
  reader     TEXT    NOT NULL,
  stream     TEXT    NOT NULL,
  position   INTEGER NOT NULL DEFAULT 0 CHECK (position >= 0),
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (reader, stream)
) WITHOUT ROWID;
CREATE INDEX holdfast_cursors_by_stream ON holdfast_cursors (stream);
CREATE INDEX holdfast_cursors_expired ON holdfast_cursors (reader) WHERE expires_at IS NOT NULL;

-- Readers of all streams that match a pattern. The router puts their streams into `holdfast_lagging`.
CREATE TABLE holdfast_readers (
  name     TEXT    PRIMARY KEY,
  pattern  TEXT    NOT NULL,
  start    TEXT    NOT NULL CHECK (start IN ('beginning', 'now')),
  surveyed TEXT,                                      -- stored streams up to this one were looked at; NULL: all of them
  active   INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  seen_at  INTEGER NOT NULL                           -- when a process last worked for it
) WITHOUT ROWID;

-- The streams that a reader has not read to their end, and nothing else: what a publisher looks at does not grow with
-- the number of streams. `head` is as the router saw it. A lease is a token with an end; the owner is NULL for a process
-- that is not registered.
CREATE TABLE holdfast_lagging (
  reader      TEXT    NOT NULL,
  stream      TEXT    NOT NULL,
  head        INTEGER NOT NULL,
  since       INTEGER NOT NULL,                       -- when an event before or at the first unread one was accepted
  due_at      INTEGER NOT NULL,
  failures    INTEGER NOT NULL DEFAULT 0,
  error       TEXT,
  alarmed     INTEGER NOT NULL DEFAULT 0 CHECK (alarmed IN (0, 1)),
  owner       INTEGER,
  token       INTEGER,
  lease_until INTEGER,                                -- wall clock, milliseconds
  PRIMARY KEY (reader, stream),
  CHECK ((token IS NULL) = (lease_until IS NULL) AND (token IS NOT NULL OR owner IS NULL))
) WITHOUT ROWID;
CREATE INDEX holdfast_lagging_due ON holdfast_lagging (reader, due_at) WHERE token IS NULL;
CREATE INDEX holdfast_lagging_leased ON holdfast_lagging (token) WHERE token IS NOT NULL;

-- Files that hold events of streams, and which events each of them holds.
CREATE TABLE holdfast_archives (
  id         TEXT    PRIMARY KEY,
  events     INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  sha256     TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE holdfast_archived (
  stream    TEXT    NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq  INTEGER NOT NULL CHECK (last_seq >= first_seq),
  archive   TEXT    NOT NULL,
  PRIMARY KEY (stream, first_seq)
) WITHOUT ROWID;

-- Events that each consumer has handled, written in the consumer's own transaction.
CREATE TABLE holdfast_inbox (
  consumer   TEXT    NOT NULL,
  event_id   TEXT    NOT NULL,
  handled_at INTEGER NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX holdfast_inbox_by_time ON holdfast_inbox (handled_at);

-- Agent sessions ---------------------------------------------------------------------------------------------

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
  name        TEXT,                                   -- given by an operator; empty: removed
  host        TEXT,
  facts       TEXT    NOT NULL DEFAULT '{}',
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_sessions_by_native ON holdfast_sessions (native_id);
CREATE INDEX holdfast_sessions_by_time ON holdfast_sessions (updated_at, id);
CREATE INDEX holdfast_sessions_by_state ON holdfast_sessions (state, updated_at, id);
CREATE INDEX holdfast_sessions_by_name ON holdfast_sessions (name) WHERE name IS NOT NULL;

-- Chats whose messages are for one session.
CREATE TABLE holdfast_bindings (
  origin  TEXT NOT NULL,
  channel TEXT NOT NULL,
  session TEXT NOT NULL,
  PRIMARY KEY (origin, channel)
) WITHOUT ROWID;
CREATE INDEX holdfast_bindings_by_session ON holdfast_bindings (session);

-- Files that come with messages, by the SHA-256 of their bytes. `created_at` is when one was last stored.
CREATE TABLE holdfast_blobs (
  sha256     TEXT    PRIMARY KEY CHECK (length(sha256) = 64),
  data       BLOB    NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX holdfast_blobs_by_time ON holdfast_blobs (created_at);

-- How far each transcript of a session was read. `file` identifies the file by its path and first line; `generation`
-- grows when the file was truncated or replaced.
CREATE TABLE holdfast_bookmarks (
  session     TEXT    NOT NULL,
  file        TEXT    NOT NULL,
  generation  INTEGER NOT NULL CHECK (generation >= 0),
  byte_offset INTEGER NOT NULL CHECK (byte_offset >= 0),
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (session, file)
) WITHOUT ROWID;

-- What happened in each minute of the last day, for the charts of the web page. `minute` is counted from 1970.
CREATE TABLE holdfast_history (
  minute           INTEGER PRIMARY KEY,
  accepted         INTEGER NOT NULL,
  delivered        INTEGER NOT NULL,
  dead             INTEGER NOT NULL,
  dropped          INTEGER NOT NULL,
  pending          INTEGER NOT NULL,
  oldest_pending_s INTEGER NOT NULL
);

-- What became of the deliveries of each contract, in each hour of the last day and in all (hour 0). Processes that
-- deliver add their counts once a minute, so that no table has to be scanned. Times are 0 where there is none.
CREATE TABLE holdfast_contract_hours (
  contract     TEXT    NOT NULL,
  hour         INTEGER NOT NULL,
  delivered    INTEGER NOT NULL,
  dead         INTEGER NOT NULL,
  dropped      INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  latency_ms   INTEGER NOT NULL,
  delivered_at INTEGER NOT NULL,
  failed_at    INTEGER NOT NULL,
  PRIMARY KEY (contract, hour)
) WITHOUT ROWID;

-- Receipts ---------------------------------------------------------------------------------------------------

CREATE TABLE holdfast_nodes (
  chain TEXT    PRIMARY KEY,
  owner INTEGER,
  seq   INTEGER NOT NULL DEFAULT 0,
  head  BLOB    NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000'
) WITHOUT ROWID;

CREATE TABLE holdfast_receipts (
  chain  TEXT    NOT NULL,
  seq    INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  prev   BLOB    NOT NULL,
  root   BLOB    NOT NULL,
  h_self BLOB    NOT NULL,
  leaves BLOB    NOT NULL,
  UNIQUE (chain, seq)
);
-- A delivery's receipts are found by the times of its transitions: a link has the same time as the transitions in it.
CREATE INDEX holdfast_receipts_by_time ON holdfast_receipts (at);

-- How far each chain was verified, and the first fault that was found. Faults of no chain have an empty name.
CREATE TABLE holdfast_checked_chains (
  chain      TEXT    PRIMARY KEY,
  checked_at INTEGER NOT NULL,
  checked_to INTEGER NOT NULL,
  faults     INTEGER NOT NULL,
  fault      TEXT                                     -- JSON
) WITHOUT ROWID;

-- Receipts that other systems append over the API: one shared chain, idempotent on the source tuple.
CREATE TABLE holdfast_substrate (
  chain_seq      INTEGER PRIMARY KEY,
  id             TEXT NOT NULL UNIQUE,
  source_system  TEXT NOT NULL,
  source_table   TEXT NOT NULL,
  source_id      TEXT NOT NULL,
  action_type    TEXT NOT NULL,
  source_version TEXT NOT NULL DEFAULT '',
  tenant_id      TEXT,
  actor_id       TEXT NOT NULL,
  actor_kind     TEXT NOT NULL,
  input_hash     TEXT NOT NULL,
  output_hash    TEXT NOT NULL,
  references_json TEXT NOT NULL DEFAULT '{}',
  UNIQUE (source_system, source_table, source_id, action_type, source_version)
);

-- Owners and tokens ------------------------------------------------------------------------------------------

CREATE TABLE holdfast_owners (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  pid        INTEGER NOT NULL,
  host       TEXT    NOT NULL,
  boot_id    TEXT    NOT NULL,
  chain      TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER
);

CREATE TABLE holdfast_tokens (
  id         TEXT    PRIMARY KEY,
  name       TEXT    NOT NULL,
  scope      TEXT    NOT NULL CHECK (scope <> ''),
  hash       TEXT    NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
