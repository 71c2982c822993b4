-- The first schema. Times named *_at are UTC milliseconds as the writer gave them; leases run on the database's clock.
-- Names stand in the schema `holdfast`; another schema is written in its place when the store's URL names one.
-- No foreign keys: every row is written by a statement in sql/, and retention removes in an order that a
-- constraint would only slow down. The invariant checker of the test suite looks for orphans instead.
-- Names compare byte by byte (COLLATE "C"), as they do on SQLite, whatever the database's own language is.

CREATE TABLE holdfast.meta (
  key   text PRIMARY KEY,
  value text NOT NULL
);

INSERT INTO holdfast.meta (key, value)
VALUES ('contracts_version', '1'), ('epoch', left(replace(gen_random_uuid()::text, '-', ''), 16));

-- Facts ------------------------------------------------------------------------------------------------------

-- `n` may have gaps and may commit out of order: nobody reads by it but the router's own list and an operator's pages.
CREATE TABLE holdfast.events (
  n           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  stream      text COLLATE "C",                       -- NULL: the event is its own stream
  seq         bigint NOT NULL DEFAULT 1 CHECK (seq >= 1),
  source      text   NOT NULL,
  type        text   NOT NULL,
  timestamp   text   NOT NULL,
  accepted_at bigint NOT NULL,
  properties  text   NOT NULL DEFAULT '{}',
  payload     text   NOT NULL DEFAULT 'null',
  dedup_key   text,
  address     text,                                   -- `to`: a direct address
  not_before  bigint,
  CHECK (stream IS NOT NULL OR seq = 1),
  CHECK (not_before IS NULL OR stream IS NULL)
);
CREATE UNIQUE INDEX events_by_stream ON holdfast.events (stream, seq) WHERE stream IS NOT NULL;

-- Its row is locked from the append to the commit: `seq` has no gaps, and no reader can pass one that commits late.
CREATE TABLE holdfast.streams (
  id         text COLLATE "C" PRIMARY KEY,
  head       bigint NOT NULL,
  created_at bigint NOT NULL,
  closed_at  bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE holdfast.dedup (
  source     text   COLLATE "C" NOT NULL,
  key        text   COLLATE "C" NOT NULL,
  event_id   text   COLLATE "C" NOT NULL,
  stream     text,
  seq        bigint NOT NULL,
  digest     text,
  created_at bigint NOT NULL,
  PRIMARY KEY (source, key)
);
CREATE INDEX dedup_by_age ON holdfast.dedup (created_at);

-- Rows come and go with every event: vacuum looks often and does not dawdle.
CREATE TABLE holdfast.unrouted (event bigint PRIMARY KEY)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000);
CREATE TABLE holdfast.unmatched (event bigint PRIMARY KEY);

-- Who wants what ---------------------------------------------------------------------------------------------

CREATE TABLE holdfast.contracts (
  id            text COLLATE "C" PRIMARY KEY,
  contract_json text    NOT NULL,
  active        boolean NOT NULL DEFAULT true,
  source        text    NOT NULL CHECK (source IN ('config', 'api', 'programmatic')),
  created_at    bigint  NOT NULL,
  updated_at    bigint  NOT NULL,
  removed_at    bigint
);

-- Apart from the contract, so that no view, dump or answer carries a secret by accident.
CREATE TABLE holdfast.secrets (
  contract   text   COLLATE "C" NOT NULL,
  secret     text   NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (contract, secret)
);

-- A queue is the line of one contract, or of one direct address. Holding it costs one row, however long it is.
CREATE TABLE holdfast.queues (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  contract  text    COLLATE "C" NOT NULL DEFAULT '',
  address   text    COLLATE "C" NOT NULL,
  kind      text    NOT NULL CHECK (kind IN ('https', 'handler', 'session')),
  paused    boolean NOT NULL DEFAULT false,
  parked    boolean NOT NULL DEFAULT false,
  served_at bigint  NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX queues_by_contract ON holdfast.queues (contract) WHERE contract <> '';
CREATE UNIQUE INDEX queues_by_address ON holdfast.queues (address) WHERE contract = '';
CREATE INDEX queues_serving ON holdfast.queues (address);

-- What an operator paused by name, so that a queue or lane made later is held too.
CREATE TABLE holdfast.pauses (
  scope      text   NOT NULL CHECK (scope IN ('contract', 'address', 'lane')),
  name       text   COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (scope, name)
);

-- Duties -----------------------------------------------------------------------------------------------------

CREATE TABLE holdfast.lanes (
  id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key    text    COLLATE "C" NOT NULL UNIQUE,
  tail   bigint  NOT NULL,
  open   bigint  NOT NULL CHECK (open >= 0),
  paused boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE holdfast.deliveries (
  id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event        bigint  NOT NULL,
  queue        bigint  NOT NULL,
  lane         bigint,
  pos          bigint,
  state        text    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'dead', 'dropped')),
  reason       text,
  attempts     integer NOT NULL DEFAULT 0,
  generation   integer NOT NULL DEFAULT 1,
  handed_until bigint,
  survivor     bigint,
  created_at   bigint  NOT NULL,
  settled_at   bigint,
  last_error   text,
  CHECK ((lane IS NULL) = (pos IS NULL)),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((state IN ('dead', 'dropped')) = (reason IS NOT NULL)),
  CHECK (handed_until IS NULL OR state = 'pending')
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX deliveries_by_event ON holdfast.deliveries (event, queue);
CREATE INDEX deliveries_by_lane ON holdfast.deliveries (lane, pos) WHERE state = 'pending' AND lane IS NOT NULL;
CREATE INDEX deliveries_dead ON holdfast.deliveries (id) WHERE state = 'dead';
CREATE INDEX deliveries_handed ON holdfast.deliveries (handed_until) WHERE handed_until IS NOT NULL;

-- What can be claimed: every unordered delivery and the head of each lane; nothing else. Narrow, since it is rewritten
-- by every claim, and vacuumed without pause.
CREATE TABLE holdfast.ready (
  delivery    bigint  PRIMARY KEY,
  queue       bigint  NOT NULL,
  due_at      bigint  NOT NULL,
  starts      integer NOT NULL DEFAULT 0,
  owner       bigint,
  token       bigint,
  lease_until bigint,                                 -- the database's clock, milliseconds
  CHECK ((token IS NULL) = (owner IS NULL) AND (token IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2);
CREATE INDEX ready_due ON holdfast.ready (queue, due_at, delivery) WHERE token IS NULL;
CREATE INDEX ready_suspects ON holdfast.ready (queue, due_at) WHERE token IS NULL AND starts >= 2;
CREATE INDEX ready_leased ON holdfast.ready (token) WHERE token IS NOT NULL;

CREATE TABLE holdfast.attempts (
  id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery   bigint  NOT NULL,
  generation integer NOT NULL,
  attempt    integer NOT NULL,
  started_at bigint  NOT NULL,
  ended_at   bigint  NOT NULL,
  outcome    text    NOT NULL,
  error      text,
  detail     text
);
CREATE INDEX attempts_by_delivery ON holdfast.attempts (delivery, id);

-- Readers ----------------------------------------------------------------------------------------------------

CREATE TABLE holdfast.cursors (
  reader     text   COLLATE "C" NOT NULL,
  stream     text   COLLATE "C" NOT NULL,
  position   bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
  updated_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (reader, stream)
);
CREATE INDEX cursors_by_stream ON holdfast.cursors (stream);

-- The book ---------------------------------------------------------------------------------------------------

CREATE TABLE holdfast.nodes (
  chain text   COLLATE "C" PRIMARY KEY,
  owner bigint,
  seq   bigint NOT NULL DEFAULT 0,
  head  bytea  NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
) WITH (fillfactor = 20);

CREATE TABLE holdfast.receipts (
  chain  text   COLLATE "C" NOT NULL,
  seq    bigint NOT NULL,
  at     bigint NOT NULL,
  prev   bytea  NOT NULL,
  root   bytea  NOT NULL,
  h_self bytea  NOT NULL,
  leaves bytea  NOT NULL,
  PRIMARY KEY (chain, seq)
);

-- What other systems append over the API: one shared chain, idempotent on the source tuple.
CREATE TABLE holdfast.substrate (
  chain_seq       bigint PRIMARY KEY,
  id              text NOT NULL UNIQUE,
  source_system   text NOT NULL,
  source_table    text NOT NULL,
  source_id       text NOT NULL,
  action_type     text NOT NULL,
  source_version  text NOT NULL DEFAULT '',
  tenant_id       text,
  actor_id        text NOT NULL,
  actor_kind      text NOT NULL,
  input_hash      text NOT NULL,
  output_hash     text NOT NULL,
  references_json text NOT NULL DEFAULT '{}',
  UNIQUE (source_system, source_table, source_id, action_type, source_version)
);

-- Who works here ---------------------------------------------------------------------------------------------

-- `id` is half of an advisory lock's name, so it is an integer.
CREATE TABLE holdfast.owners (
  id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pid        integer NOT NULL,
  host       text    NOT NULL,
  boot_id    text    NOT NULL,
  chain      text    NOT NULL,
  started_at bigint  NOT NULL,
  ended_at   bigint
);

CREATE TABLE holdfast.tokens (
  id         text COLLATE "C" PRIMARY KEY,
  name       text   NOT NULL,
  scope      text   NOT NULL CHECK (scope IN ('read', 'operate', 'admin')),
  hash       text   NOT NULL UNIQUE,
  created_at bigint NOT NULL,
  revoked_at bigint
);
