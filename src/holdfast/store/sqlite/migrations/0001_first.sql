-- The first schema. Times named *_at are UTC milliseconds; leases run on the boot clock, which nobody can set.
-- No foreign keys: every row is written by a statement in sql/, and retention removes in an order that a
-- constraint would only slow down. The invariant checker of the test suite looks for orphans instead.

CREATE TABLE holdfast_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO holdfast_meta (key, value) VALUES ('contracts_version', '1'), ('epoch', lower(hex(randomblob(8))));

-- Facts ------------------------------------------------------------------------------------------------------

-- AUTOINCREMENT: `n` must never be given twice, even after the newest rows were pruned.
CREATE TABLE holdfast_events (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
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

CREATE TABLE holdfast_streams (
  id         TEXT    PRIMARY KEY,
  head       INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  closed_at  INTEGER
) WITHOUT ROWID;

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

CREATE TABLE holdfast_unrouted  (event INTEGER PRIMARY KEY);
CREATE TABLE holdfast_unmatched (event INTEGER PRIMARY KEY);

-- An event cannot exist without being on its way to the router.
CREATE TRIGGER holdfast_events_unrouted AFTER INSERT ON holdfast_events
BEGIN
  INSERT INTO holdfast_unrouted (event) VALUES (new.n);
END;

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
  SELECT RAISE(ABORT, 'holdfast: to is not an address: use https://…, handler:NAME or session:ID')
    WHERE new."to" IS NOT NULL AND new."to" NOT GLOB 'https://?*' AND new."to" NOT GLOB 'http://?*'
      AND new."to" NOT GLOB 'handler:?*' AND new."to" NOT GLOB 'session:?*';
  SELECT RAISE(ABORT, 'holdfast: not_before cannot be combined with stream')
    WHERE new.not_before IS NOT NULL AND new.stream IS NOT NULL;
  SELECT RAISE(ABORT, 'holdfast: stream is closed')
    WHERE EXISTS (SELECT 1 FROM holdfast_streams WHERE id = new.stream AND closed_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM holdfast_events WHERE id = new.id)  -- what was accepted before may be said again
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
      (id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
    SELECT
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
  -- After a duplicate last_insert_rowid() names an older event; its own key is known already, so nothing changes.
  INSERT INTO holdfast_dedup (source, key, event_id, stream, seq, digest, created_at)
    SELECT source, dedup_key, id, stream, seq, new.digest, accepted_at FROM holdfast_events
    WHERE n = last_insert_rowid() AND source = coalesce(new.source, 'app') AND dedup_key = new.dedup_key
    ON CONFLICT DO NOTHING;
END;

-- Who wants what ---------------------------------------------------------------------------------------------

CREATE TABLE holdfast_contracts (
  id            TEXT    PRIMARY KEY,
  contract_json TEXT    NOT NULL,
  active        INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  source        TEXT    NOT NULL CHECK (source IN ('config', 'api', 'programmatic')),
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  removed_at    INTEGER
) WITHOUT ROWID;

-- Apart from the contract, so that no view, dump or answer carries a secret by accident.
CREATE TABLE holdfast_secrets (
  contract   TEXT    NOT NULL,
  secret     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (contract, secret)
) WITHOUT ROWID;

-- A queue is the line of one contract, or of one direct address. Holding it costs one row, however long it is.
CREATE TABLE holdfast_queues (
  id        INTEGER PRIMARY KEY,
  contract  TEXT    NOT NULL DEFAULT '',
  address   TEXT    NOT NULL,
  kind      TEXT    NOT NULL CHECK (kind IN ('https', 'handler', 'session')),
  paused    INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  parked    INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
  served_at INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX holdfast_queues_by_contract ON holdfast_queues (contract) WHERE contract <> '';
CREATE UNIQUE INDEX holdfast_queues_by_address ON holdfast_queues (address) WHERE contract = '';

-- What an operator paused by address, so that a queue made later is held too.
CREATE TABLE holdfast_pauses (
  scope      TEXT    NOT NULL CHECK (scope IN ('contract', 'address', 'lane')),
  name       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- Duties -----------------------------------------------------------------------------------------------------

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
  CHECK ((lane IS NULL) = (pos IS NULL)),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((state IN ('dead', 'dropped')) = (reason IS NOT NULL)),
  CHECK (handed_until IS NULL OR state = 'pending')
);
CREATE UNIQUE INDEX holdfast_deliveries_by_event ON holdfast_deliveries (event, queue);
CREATE INDEX holdfast_deliveries_by_lane ON holdfast_deliveries (lane, pos) WHERE state = 'pending' AND lane IS NOT NULL;
CREATE INDEX holdfast_deliveries_dead ON holdfast_deliveries (id) WHERE state = 'dead';
CREATE INDEX holdfast_deliveries_handed ON holdfast_deliveries (handed_until) WHERE handed_until IS NOT NULL;

-- What can be claimed: every unordered delivery and the head of each lane; nothing else.
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

-- Readers ----------------------------------------------------------------------------------------------------

CREATE TABLE holdfast_cursors (
  reader     TEXT    NOT NULL,
  stream     TEXT    NOT NULL,
  position   INTEGER NOT NULL DEFAULT 0 CHECK (position >= 0),
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (reader, stream)
) WITHOUT ROWID;
CREATE INDEX holdfast_cursors_by_stream ON holdfast_cursors (stream);

-- The book ---------------------------------------------------------------------------------------------------

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

-- What other systems append over the API: one shared chain, idempotent on the source tuple.
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

-- Who works here ---------------------------------------------------------------------------------------------

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
  scope      TEXT    NOT NULL CHECK (scope IN ('read', 'operate', 'admin')),
  hash       TEXT    NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
