-- The first schema: tables first, then the functions that publish, route, claim and settle.
-- Times named *_at are UTC milliseconds as the writer gave them. Leases run on the database's clock.
-- Objects live in the schema `holdfast`, or in the one that the store's URL names.
-- There are no foreign keys: every row is written by a statement in sql/, and constraint checks would only slow
-- retention down. The test suite checks for orphaned rows instead.
-- Names compare byte by byte (COLLATE "C"), as they do on SQLite, whatever the database's own collation is.

CREATE TABLE {schema}.meta (
  key   text PRIMARY KEY,
  value text NOT NULL
);

INSERT INTO {schema}.meta (key, value)
VALUES ('contracts_version', '1'), ('epoch', left(replace(gen_random_uuid()::text, '-', ''), 16)),
       ('ready_queue', 'native');

-- Events -----------------------------------------------------------------------------------------------------

-- `n` may have gaps and may commit out of order: only the router's list and an operator's pages are read by it.
-- The table has no CHECK constraints: every statement would parse their text again. Rows are inserted only by the
-- functions below and by the statement for plain events, which cannot write a value that such a check would refuse; the
-- test suite checks the invariants (`seq` >= 1, an event without a stream has `seq` 1, `not_before` only without one).
CREATE TABLE {schema}.events (
  n           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  stream      text COLLATE "C",                       -- NULL: the event is its own stream
  seq         bigint NOT NULL DEFAULT 1,
  source      text   NOT NULL,
  type        text   NOT NULL,
  timestamp   text   NOT NULL,
  accepted_at bigint NOT NULL,
  properties  text   NOT NULL DEFAULT '{}',
  payload     text   NOT NULL DEFAULT 'null',
  dedup_key   text,
  address     text,                                   -- `to`: a direct address
  not_before  bigint
);
CREATE UNIQUE INDEX events_by_stream ON {schema}.events (stream, seq) WHERE stream IS NOT NULL;

-- An append locks its stream's row until it commits: `seq` has no gaps, and no reader can pass an event that commits late.
CREATE TABLE {schema}.streams (
  id         text COLLATE "C" PRIMARY KEY,
  head       bigint NOT NULL,
  created_at bigint NOT NULL,
  closed_at  bigint,
  emptied_at bigint,                                  -- when retention removed its last event; the row is kept longer
  archived   bigint NOT NULL DEFAULT 0                -- an archive holds the stored events up to this `seq`
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX streams_emptied ON {schema}.streams (emptied_at) WHERE emptied_at IS NOT NULL;

CREATE TABLE {schema}.dedup (
  source     text   COLLATE "C" NOT NULL,
  key        text   COLLATE "C" NOT NULL,
  event_id   text   COLLATE "C" NOT NULL,
  stream     text,
  seq        bigint NOT NULL,
  digest     text,
  created_at bigint NOT NULL,
  PRIMARY KEY (source, key)
);
CREATE INDEX dedup_by_age ON {schema}.dedup (created_at);

-- Events that wait for the router. Rows come and go with every event, so vacuum runs often and without delay.
CREATE TABLE {schema}.unrouted (event bigint PRIMARY KEY)
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000);

-- Events that no contract matched and that name no direct address.
CREATE TABLE {schema}.unmatched (event bigint PRIMARY KEY);

-- Counts that `status` shows, kept by the router and by retention so that no table has to be scanned. They cover events
-- that were routed and are still stored; `streams` counts the events that were the first of their stream. Publishers do
-- not update the row, or they would wait for each other.
CREATE TABLE {schema}.counts (
  one       smallint PRIMARY KEY CHECK (one = 1),
  events    bigint NOT NULL,
  unmatched bigint NOT NULL,
  streams   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO {schema}.counts (one, events, unmatched, streams) VALUES (1, 0, 0, 0);

-- Contracts --------------------------------------------------------------------------------------------------

CREATE TABLE {schema}.contracts (
  id            text COLLATE "C" PRIMARY KEY,
  contract_json text    NOT NULL,
  active        boolean NOT NULL DEFAULT true,
  source        text    NOT NULL CHECK (source IN ('config', 'api', 'programmatic')),
  created_at    bigint  NOT NULL,
  updated_at    bigint  NOT NULL,
  removed_at    bigint,
  version       bigint  NOT NULL DEFAULT 0,           -- the `contracts_version` that its last change belongs to
  -- How many deliveries of this contract may be under way at a time, over all processes. Generated from the contract,
  -- so that no statement can forget to update it.
  concurrency   integer GENERATED ALWAYS AS ((contract_json::json ->> 'concurrency')::integer) STORED
);
CREATE INDEX contracts_by_version ON {schema}.contracts (version);

-- A process that keeps contracts in memory reads only those changed since the version it has seen. A trigger sets
-- `version`, so no statement can forget to. Each change is followed by an increment of `contracts_version` in the same
-- transaction, so the version of a change is the present one plus one. The row lock keeps that true when two
-- transactions change different contracts at once: without it both changes would get the same version.
CREATE FUNCTION {schema}.stamp_contract() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT m.value::bigint + 1 INTO NEW.version FROM {schema}.meta m WHERE m.key = 'contracts_version' FOR UPDATE;
  RETURN NEW;
END $$;

CREATE TRIGGER contracts_stamped BEFORE INSERT OR UPDATE ON {schema}.contracts
  FOR EACH ROW EXECUTE FUNCTION {schema}.stamp_contract();

-- Separate from the contract, so that no view, dump or response includes a secret by accident.
CREATE TABLE {schema}.secrets (
  contract   text   COLLATE "C" NOT NULL,
  secret     text   NOT NULL,
  created_at bigint NOT NULL,
  until      bigint,                                  -- NULL: the newest secret, which has no end yet
  PRIMARY KEY (contract, secret)
);

-- Separate like the secrets: a header may hold a password.
CREATE TABLE {schema}.headers (
  contract text COLLATE "C" NOT NULL,
  name     text COLLATE "C" NOT NULL,
  value    text NOT NULL,
  PRIMARY KEY (contract, name)
);

-- A queue holds the deliveries of one contract or of one direct address. Pausing it updates one row, whatever its
-- length.
CREATE TABLE {schema}.queues (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  contract  text    COLLATE "C" NOT NULL DEFAULT '',
  address   text    COLLATE "C" NOT NULL,
  kind      text    NOT NULL CHECK (kind ~ '^[a-z]'),
  paused    boolean NOT NULL DEFAULT false,
  parked    boolean NOT NULL DEFAULT false,
  served_at bigint  NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX queues_by_contract ON {schema}.queues (contract) WHERE contract <> '';
CREATE UNIQUE INDEX queues_by_address ON {schema}.queues (address) WHERE contract = '';
CREATE INDEX queues_serving ON {schema}.queues (address);

-- Pauses by name, so that a queue or lane created later is paused too.
CREATE TABLE {schema}.pauses (
  scope      text   NOT NULL CHECK (scope IN ('contract', 'address', 'lane')),
  name       text   COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (scope, name)
);

-- Deliveries -------------------------------------------------------------------------------------------------

CREATE TABLE {schema}.lanes (
  id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key    text    COLLATE "C" NOT NULL UNIQUE,
  tail   bigint  NOT NULL,
  open   bigint  NOT NULL CHECK (open >= 0),
  paused boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- The end of a delivery is a HOT update: the new row version stays on its page, with no new index entries, as long as no
-- column named by an index or by an index's condition changes and the page has space (hence the low fillfactor).
-- Therefore no index names `state`: an ended delivery has a negative `pos`, and dead ones are found by their reason.
CREATE TABLE {schema}.deliveries (
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
  burst        text,                                  -- NULL: never replaced by a newer delivery, never evicted
  CHECK ((lane IS NULL) = (pos IS NULL)),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((state IN ('dead', 'dropped')) = (reason IS NOT NULL)),
  CHECK (handed_until IS NULL OR state = 'pending'),
  CONSTRAINT deliveries_place CHECK (pos IS NULL OR (pos > 0) = (state = 'pending'))
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX deliveries_by_event ON {schema}.deliveries (event, queue);
CREATE INDEX deliveries_by_lane ON {schema}.deliveries (lane, pos) WHERE pos > 0;
-- The reasons of dead deliveries, as in every statement that looks for them; a test compares them with the state table.
CREATE INDEX deliveries_dead ON {schema}.deliveries (id)
  WHERE reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler', 'no_session', 'ambiguous', 'unconfirmed');
CREATE INDEX deliveries_dead_by_queue ON {schema}.deliveries (queue, id) INCLUDE (event, reason)
  WHERE reason IN ('rejected', 'exhausted', 'crash_loop', 'no_handler', 'no_session', 'ambiguous', 'unconfirmed');
CREATE INDEX deliveries_handed ON {schema}.deliveries (handed_until) WHERE handed_until IS NOT NULL;

-- The deliveries that can be claimed: every unordered one and the head of each lane, nothing else. The table is narrow
-- because every claim rewrites rows, and vacuumed without delay. After `db promote --to pgmq` the name is that of a view.
CREATE TABLE {schema}.ready (
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
CREATE INDEX ready_due ON {schema}.ready (queue, due_at, delivery) WHERE token IS NULL;
CREATE INDEX ready_suspects ON {schema}.ready (queue, due_at) WHERE token IS NULL AND starts >= 2;
CREATE INDEX ready_leased ON {schema}.ready (token) WHERE token IS NOT NULL;

CREATE TABLE {schema}.attempts (
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
CREATE INDEX attempts_by_delivery ON {schema}.attempts (delivery, id);

-- Rate limits and circuit breakers of addresses. Rates run on the wall clock, in microseconds. A breaker is open while
-- `open_until` is set. One process at a time probes an address whose breaker is open: `probe_owner`, until that process
-- ends or `probe_until` has passed.
CREATE TABLE {schema}.gates (
  address       text COLLATE "C" PRIMARY KEY,
  next_at_us    bigint NOT NULL DEFAULT 0,
  failing_since bigint,
  open_until    bigint,
  probe_until   bigint,
  probe_owner   bigint,
  trips         integer NOT NULL DEFAULT 0,
  CHECK ((failing_since IS NULL) = (open_until IS NULL))
);
CREATE INDEX gates_open ON {schema}.gates (open_until) WHERE open_until IS NOT NULL;

-- Hourly limits: how many were counted of each name, per minute of the wall clock. Minute 0 of a name is its lock.
CREATE TABLE {schema}.quotas (
  name   text COLLATE "C" NOT NULL,
  minute bigint NOT NULL,
  taken  integer NOT NULL,
  PRIMARY KEY (name, minute)
);

-- Readers and consumers --------------------------------------------------------------------------------------

CREATE TABLE {schema}.cursors (
  reader     text   COLLATE "C" NOT NULL,
  stream     text   COLLATE "C" NOT NULL,
  position   bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
  updated_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (reader, stream)
);
CREATE INDEX cursors_by_stream ON {schema}.cursors (stream);
CREATE INDEX cursors_expired ON {schema}.cursors (reader) WHERE expires_at IS NOT NULL;

-- Readers of all streams that match a pattern. The router puts their streams into `lagging`.
CREATE TABLE {schema}.readers (
  name     text COLLATE "C" PRIMARY KEY,
  pattern  text    NOT NULL,
  start    text    NOT NULL CHECK (start IN ('beginning', 'now')),
  surveyed text COLLATE "C",                          -- stored streams up to this one were looked at; NULL: all of them
  active   boolean NOT NULL DEFAULT true,
  seen_at  bigint  NOT NULL                           -- when a process last worked for it
);

-- The streams that a reader has not read to their end, and nothing else: what a publisher looks at does not grow with
-- the number of streams. `head` is as the router saw it. A lease is a token with an end; the owner is NULL for a process
-- that is not registered.
CREATE TABLE {schema}.lagging (
  reader      text COLLATE "C" NOT NULL,
  stream      text COLLATE "C" NOT NULL,
  head        bigint  NOT NULL,
  since       bigint  NOT NULL,                       -- when an event before or at the first unread one was accepted
  due_at      bigint  NOT NULL,
  failures    integer NOT NULL DEFAULT 0,
  error       text,
  alarmed     boolean NOT NULL DEFAULT false,
  owner       bigint,
  token       bigint,
  lease_until bigint,                                 -- the database's clock, milliseconds
  PRIMARY KEY (reader, stream),
  CHECK ((token IS NULL) = (lease_until IS NULL) AND (token IS NOT NULL OR owner IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lagging_due ON {schema}.lagging (reader, due_at) WHERE token IS NULL;
CREATE INDEX lagging_leased ON {schema}.lagging (token) WHERE token IS NOT NULL;

-- Files that hold events of streams, and which events each of them holds.
CREATE TABLE {schema}.archives (
  id         text COLLATE "C" PRIMARY KEY,
  events     bigint NOT NULL,
  bytes      bigint NOT NULL,
  sha256     text   NOT NULL,
  created_at bigint NOT NULL
);
CREATE TABLE {schema}.archived (
  stream    text COLLATE "C" NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL CHECK (last_seq >= first_seq),
  archive   text   NOT NULL,
  PRIMARY KEY (stream, first_seq)
);

-- Events that each consumer has handled, written in the consumer's own transaction.
CREATE TABLE {schema}.inbox (
  consumer   text COLLATE "C" NOT NULL,
  event_id   text COLLATE "C" NOT NULL,
  handled_at bigint NOT NULL,
  PRIMARY KEY (consumer, event_id)
);
CREATE INDEX inbox_by_time ON {schema}.inbox (handled_at);

-- Agent sessions ---------------------------------------------------------------------------------------------

CREATE TABLE {schema}.sessions (
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
  name        text COLLATE "C",                       -- given by an operator; empty: removed
  host        text,
  facts       text   NOT NULL DEFAULT '{}',
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL
);
CREATE INDEX sessions_by_native ON {schema}.sessions (native_id);
CREATE INDEX sessions_by_time ON {schema}.sessions (updated_at, id);
CREATE INDEX sessions_by_state ON {schema}.sessions (state, updated_at, id);
CREATE INDEX sessions_by_name ON {schema}.sessions (name) WHERE name IS NOT NULL;

-- Chats whose messages are for one session.
CREATE TABLE {schema}.bindings (
  origin  text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  PRIMARY KEY (origin, channel)
);
CREATE INDEX bindings_by_session ON {schema}.bindings (session);

-- Files that come with messages, by the SHA-256 of their bytes. `created_at` is when one was last stored.
CREATE TABLE {schema}.blobs (
  sha256     text COLLATE "C" PRIMARY KEY CHECK (length(sha256) = 64),
  data       bytea  NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX blobs_by_time ON {schema}.blobs (created_at);

-- How far each transcript of a session was read. `file` identifies the file by its path and first line; `generation`
-- grows when the file was truncated or replaced.
CREATE TABLE {schema}.bookmarks (
  session     text   COLLATE "C" NOT NULL,
  file        text   COLLATE "C" NOT NULL,
  generation  bigint NOT NULL CHECK (generation >= 0),
  byte_offset bigint NOT NULL CHECK (byte_offset >= 0),
  updated_at  bigint NOT NULL,
  PRIMARY KEY (session, file)
);

-- What happened in each minute of the last day, for the charts of the web page. `minute` is counted from 1970.
CREATE TABLE {schema}.history (
  minute           bigint PRIMARY KEY,
  accepted         bigint NOT NULL,
  delivered        bigint NOT NULL,
  dead             bigint NOT NULL,
  dropped          bigint NOT NULL,
  pending          bigint NOT NULL,
  oldest_pending_s bigint NOT NULL
) WITH (fillfactor = 50);

-- What became of the deliveries of each contract, in each hour of the last day and in all (hour 0). Processes that
-- deliver add their counts once a minute, so that no table has to be scanned. Times are 0 where there is none.
CREATE TABLE {schema}.contract_hours (
  contract     text   COLLATE "C" NOT NULL,
  hour         bigint NOT NULL,
  delivered    bigint NOT NULL,
  dead         bigint NOT NULL,
  dropped      bigint NOT NULL,
  failed       bigint NOT NULL,
  latency_ms   bigint NOT NULL,
  delivered_at bigint NOT NULL,
  failed_at    bigint NOT NULL,
  PRIMARY KEY (contract, hour)
) WITH (fillfactor = 50);

-- Receipts ---------------------------------------------------------------------------------------------------

CREATE TABLE {schema}.nodes (
  chain text   COLLATE "C" PRIMARY KEY,
  owner bigint,
  seq   bigint NOT NULL DEFAULT 0,
  head  bytea  NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
) WITH (fillfactor = 20);

CREATE TABLE {schema}.receipts (
  chain  text   COLLATE "C" NOT NULL,
  seq    bigint NOT NULL,
  at     bigint NOT NULL,
  prev   bytea  NOT NULL,
  root   bytea  NOT NULL,
  h_self bytea  NOT NULL,
  leaves bytea  NOT NULL,
  PRIMARY KEY (chain, seq)
);
-- A delivery's receipts are found by the times of its transitions: a link has the same time as the transitions in it.
CREATE INDEX receipts_by_time ON {schema}.receipts (at);

-- How far each chain was verified, and the first fault that was found. Faults of no chain have an empty name.
CREATE TABLE {schema}.checked_chains (
  chain      text   COLLATE "C" PRIMARY KEY,
  checked_at bigint NOT NULL,
  checked_to bigint NOT NULL,
  faults     bigint NOT NULL,
  fault      text                                     -- JSON
);

-- Receipts that other systems append over the API: one shared chain, idempotent on the source tuple.
CREATE TABLE {schema}.substrate (
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

-- Owners and tokens ------------------------------------------------------------------------------------------

-- `id` is half of an advisory lock's key, so it is a 4-byte integer.
CREATE TABLE {schema}.owners (
  id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pid        integer NOT NULL,
  host       text    NOT NULL,
  boot_id    text    NOT NULL,
  chain      text    NOT NULL,
  started_at bigint  NOT NULL,
  ended_at   bigint,
  seen_at    bigint,                                  -- set only through a pooler, where a lock cannot show liveness
  active_at  bigint                                   -- last sign of life, for operators; a lock outlives a stopped process
);
-- Every claim counts the living owners.
CREATE INDEX owners_alive ON {schema}.owners (id) WHERE ended_at IS NULL;

CREATE TABLE {schema}.tokens (
  id         text COLLATE "C" PRIMARY KEY,
  name       text   NOT NULL,
  scope      text   NOT NULL CHECK (scope <> ''),
  hash       text   NOT NULL UNIQUE,
  created_at bigint NOT NULL,
  revoked_at bigint
);

-- Helpers ----------------------------------------------------------------------------------------------------

CREATE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- The owners that are alive: the server frees an advisory lock with its connection. An owner behind a pooler has no
-- connection of its own to hold a lock, so it updates `seen_at`, which is valid for a minute.
CREATE FUNCTION {schema}.owners_alive() RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
  SELECT l.objid::bigint FROM pg_catalog.pg_locks l
  WHERE l.locktype = 'advisory' AND l.classid = '{schema}.owners'::regclass::oid AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  UNION ALL
  SELECT id::bigint FROM {schema}.owners WHERE ended_at IS NULL AND seen_at > {schema}.now_ms() - 60000
$$;

-- Errors have codes of their own: HF001 bad input, HF002 a dedup key used with another body, HF003 stream closed, HF004 a
-- fast settle that must be repeated on the general path, HF005 a stream with another head than expected.
CREATE FUNCTION {schema}.refuse(p_code text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = p_code, MESSAGE = 'holdfast: ' || p_message;
END $$;

-- Whether a text is JSON. (IS JSON came with PostgreSQL 16.) It runs for any caller of `publish`, with the rights of the
-- function's owner, hence the fixed search_path.
CREATE FUNCTION {schema}.is_json_guarded(p_text text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN p_text::json IS NOT NULL;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  RETURN false;
END $$;

-- The same by IS JSON where the server has it. A long text may be nested deeper than the server's stack allows, which only
-- a guarded block survives; each such block is a subtransaction.
DO $$
BEGIN
  IF current_setting('server_version_num')::integer >= 160000 THEN
    CREATE FUNCTION {schema}.is_json(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
      'SELECT CASE WHEN length(p_text) < 2000 THEN p_text IS JSON ELSE {schema}.is_json_guarded(p_text) END';
  ELSE
    CREATE FUNCTION {schema}.is_json(p_text text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
      'SELECT {schema}.is_json_guarded(p_text)';
  END IF;
END $$;

-- Return the text if it is JSON, else refuse it.
CREATE FUNCTION {schema}.checked_json(p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM p_text::json;
  RETURN p_text;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  PERFORM {schema}.refuse('HF001', 'payload or properties is not JSON');
END $$;

-- Return the texts if all of them are JSON, else refuse them. One guarded block for all.
CREATE FUNCTION {schema}.checked_json(p_texts text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  PERFORM p_texts::json[];
  RETURN p_texts;
EXCEPTION WHEN data_exception OR untranslatable_character OR statement_too_complex THEN
  PERFORM {schema}.refuse('HF001', 'payload or properties is not JSON');
END $$;

-- Publish ----------------------------------------------------------------------------------------------------

-- The result of one publish. A composite value instead of a one-row table, so that one function can call the next as an
-- expression.
CREATE TYPE {schema}.published AS (id text, stream text, seq bigint, duplicate boolean);

-- Whether the body stored under a dedup key differs. Without digests on both sides the stored events are compared.
CREATE FUNCTION {schema}.differs(p_first {schema}.dedup, p_digest text, p_type text, p_stream text, p_payload text)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN p_first.digest IS NOT NULL AND p_digest IS NOT NULL THEN p_first.digest <> p_digest
    ELSE coalesce((SELECT e.type <> p_type OR e.stream IS DISTINCT FROM p_stream
                          OR e.payload <> coalesce(p_payload, 'null')
                   FROM {schema}.events e WHERE e.id = p_first.event_id), false)
  END
$$;

-- Whether none of the 200 events before this one waits for the router. ORDER BY makes every plan use the index: with a
-- plain EXISTS the planner may scan from the table's start, and each publish then costs as much as the backlog is long.
CREATE FUNCTION {schema}.is_quiet(p_n bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_before bigint;
BEGIN
  SELECT event INTO v_before FROM {schema}.unrouted WHERE event < p_n AND event >= p_n - 200
  ORDER BY event DESC LIMIT 1;
  RETURN v_before IS NULL;
END $$;

-- Notify the router unless it is busy. NOTIFY takes a lock that all notifying commits of the server share, and a busy
-- router finds the event anyway.
CREATE FUNCTION {schema}.ring(p_n bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF {schema}.is_quiet(p_n) THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
END $$;

-- Append one event. The dedup key is inserted first, so that any other user of the key waits for this commit; then the
-- stream's row is locked until the commit; after that nothing can refuse the event.
CREATE FUNCTION {schema}.accept(
  p_id text, p_type text, p_payload text, p_source text, p_stream text, p_timestamp text, p_properties text,
  p_key text, p_to text, p_not_before bigint, p_accepted_at bigint, p_digest text, p_ring boolean
) RETURNS {schema}.published LANGUAGE plpgsql AS $$
DECLARE
  v_source text := coalesce(p_source, 'app');
  v_now    bigint := {schema}.now_ms();
  v_at     bigint := coalesce(p_accepted_at, v_now);
  v_id     text := coalesce(p_id, 'evt_' || lpad(to_hex(v_now), 12, '0')
                                  || right(replace(gen_random_uuid()::text, '-', ''), 20));
  v_seq    bigint := 1;
  v_closed bigint;
  v_known  bigint;
  v_first  {schema}.dedup;
  v_n      bigint;
BEGIN
  IF p_type IS NULL OR length(p_type) NOT BETWEEN 1 AND 255 THEN
    PERFORM {schema}.refuse('HF001', 'type is missing or longer than 255 characters');
  ELSIF p_payload IS NOT NULL AND NOT {schema}.is_json(p_payload) THEN
    PERFORM {schema}.refuse('HF001', 'payload is not JSON');
  ELSIF p_properties <> '{}' AND (NOT {schema}.is_json(p_properties) OR json_typeof(p_properties::json) <> 'object') THEN
    PERFORM {schema}.refuse('HF001', 'properties is not a JSON object');
  ELSIF p_to !~ '^(https?://|handler:|session:).' THEN
    PERFORM {schema}.refuse('HF001', 'to is not an address: use https://…, handler:NAME or session:NAME, the scheme in lower case');
  ELSIF p_not_before IS NOT NULL AND p_stream IS NOT NULL THEN
    PERFORM {schema}.refuse('HF001', 'not_before cannot be combined with stream');
  END IF;
  IF p_id IS NOT NULL THEN
    SELECT e.seq INTO v_known FROM {schema}.events e WHERE e.id = p_id;
  END IF;
  IF p_key IS NOT NULL THEN
    IF v_known IS NULL THEN
      INSERT INTO {schema}.dedup (source, key, event_id, stream, seq, digest, created_at)
      VALUES (v_source, p_key, v_id, p_stream, 1, p_digest, v_at) ON CONFLICT DO NOTHING;
    END IF;
    SELECT * INTO v_first FROM {schema}.dedup d WHERE d.source = v_source AND d.key = p_key;
    IF v_first.event_id IS NOT NULL AND (v_known IS NOT NULL OR v_first.event_id <> v_id) THEN
      IF {schema}.differs(v_first, p_digest, p_type, p_stream, p_payload) THEN
        PERFORM {schema}.refuse('HF002', 'dedup_key was used with another body');
      END IF;
      RETURN (v_first.event_id, coalesce(v_first.stream, v_first.event_id), v_first.seq, v_first.event_id <> v_id);
    ELSIF v_known IS NULL AND v_first.event_id IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'holdfast: the key was forgotten meanwhile';
    END IF;
  END IF;
  IF v_known IS NOT NULL THEN  -- an event accepted under this id may be repeated
    RETURN (v_id, coalesce(p_stream, v_id), v_known, false);
  END IF;
  IF p_stream IS NOT NULL THEN
    INSERT INTO {schema}.streams AS s (id, head, created_at) VALUES (p_stream, 1, v_at)
    ON CONFLICT (id) DO UPDATE SET head = s.head + 1 RETURNING s.head, s.closed_at INTO v_seq, v_closed;
    IF v_closed IS NOT NULL THEN
      PERFORM {schema}.refuse('HF003', 'stream is closed');
    END IF;
    IF p_key IS NOT NULL AND v_seq <> 1 THEN
      UPDATE {schema}.dedup d SET seq = v_seq WHERE d.source = v_source AND d.key = p_key;
    END IF;
  END IF;
  INSERT INTO {schema}.events
    (id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
  VALUES (
    v_id, p_stream, v_seq, v_source, p_type,
    coalesce(p_timestamp, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
    v_at, coalesce(p_properties, '{}'), coalesce(p_payload, 'null'), p_key, p_to, p_not_before
  ) RETURNING n INTO v_n;
  INSERT INTO {schema}.unrouted (event) VALUES (v_n);
  IF p_ring AND {schema}.is_quiet(v_n) THEN
    PERFORM pg_notify('holdfast_events', '');
  END IF;
  RETURN (v_id, coalesce(p_stream, v_id), v_seq, false);
END $$;

-- Append many events at once, in their order, all or none. Keys and then streams are locked in sorted order, so that two
-- calls never deadlock. The caller guarantees that no id and no key appears twice.
CREATE FUNCTION {schema}.accept_many(
  p_ids text[], p_types text[], p_payloads text[], p_sources text[], p_streams text[], p_timestamps text[],
  p_properties text[], p_keys text[], p_tos text[], p_not_befores bigint[], p_accepted_at bigint, p_digests text[],
  p_ring boolean
) RETURNS TABLE (ord bigint, id text, stream text, seq bigint, duplicate boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_keyed   boolean := EXISTS (SELECT FROM unnest(p_keys) k WHERE k IS NOT NULL);
  v_fresh   bigint[];
  v_streams text[] := '{}';
  v_heads   bigint[] := '{}';
  v_closed  boolean := false;
  v_n       bigint;
BEGIN
  IF EXISTS (SELECT FROM unnest(p_payloads, p_properties) f(payload, properties)
             WHERE NOT {schema}.is_json(f.payload) OR (f.properties <> '{}' AND NOT {schema}.is_json(f.properties))) THEN
    PERFORM {schema}.refuse('HF001', 'payload or properties is not JSON');
  END IF;
  IF v_keyed THEN
    INSERT INTO {schema}.dedup (source, key, event_id, stream, seq, digest, created_at)
    SELECT f.source, f.key, f.id, f.stream, 1, f.digest, p_accepted_at
    FROM unnest(p_ids, p_sources, p_streams, p_keys, p_digests) f(id, source, stream, key, digest)
    WHERE f.key IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.id = f.id)
    ORDER BY f.source, f.key ON CONFLICT DO NOTHING;
    IF EXISTS (
      SELECT FROM unnest(p_ids, p_types, p_payloads, p_sources, p_streams, p_keys, p_digests)
        f(id, type, payload, source, stream, key, digest)
      JOIN {schema}.dedup d ON d.source = f.source AND d.key = f.key
      WHERE {schema}.differs(d, f.digest, f.type, f.stream, f.payload)
    ) THEN
      PERFORM {schema}.refuse('HF002', 'dedup_key was used with another body');
    END IF;
    SELECT array_agg(f.ord ORDER BY f.ord) INTO v_fresh
    FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord)
    LEFT JOIN {schema}.dedup d ON d.source = f.source AND d.key = f.key
    WHERE coalesce(d.event_id, f.id) = f.id AND NOT EXISTS (SELECT FROM {schema}.events e WHERE e.id = f.id);
  ELSE
    SELECT array_agg(f.ord ORDER BY f.ord) INTO v_fresh FROM unnest(p_ids) WITH ORDINALITY f(id, ord)
    WHERE NOT EXISTS (SELECT FROM {schema}.events e WHERE e.id = f.id);
  END IF;
  IF EXISTS (SELECT FROM unnest(p_streams) s WHERE s IS NOT NULL) THEN
    WITH grown AS (
      INSERT INTO {schema}.streams AS s (id, head, created_at)
      SELECT f.stream, count(*), p_accepted_at FROM unnest(p_streams) WITH ORDINALITY f(stream, ord)
      WHERE f.stream IS NOT NULL AND f.ord = ANY (v_fresh) GROUP BY f.stream ORDER BY f.stream COLLATE "C"
      ON CONFLICT (id) DO UPDATE SET head = s.head + excluded.head RETURNING s.id, s.head, s.closed_at
    )
    SELECT array_agg(g.id), array_agg(g.head), bool_or(g.closed_at IS NOT NULL) INTO v_streams, v_heads, v_closed
    FROM grown g;
    IF v_closed THEN
      PERFORM {schema}.refuse('HF003', 'stream is closed');
    END IF;
  END IF;
  WITH fresh AS (
    SELECT f.*, row_number() OVER (PARTITION BY f.stream ORDER BY f.ord) - count(*) OVER (PARTITION BY f.stream) AS back
    FROM unnest(p_ids, p_types, p_payloads, p_sources, p_streams, p_timestamps, p_properties, p_keys, p_tos,
                p_not_befores) WITH ORDINALITY
      f(id, type, payload, source, stream, timestamp, properties, key, address, not_before, ord)
    WHERE f.ord = ANY (v_fresh)
  ), added AS (
    INSERT INTO {schema}.events
      (id, stream, seq, source, type, timestamp, accepted_at, properties, payload, dedup_key, address, not_before)
    SELECT f.id, f.stream, coalesce(s.head + f.back, 1), f.source, f.type, f.timestamp, p_accepted_at, f.properties,
           f.payload, f.key, f.address, f.not_before
    FROM fresh f LEFT JOIN unnest(v_streams, v_heads) s(id, head) ON s.id = f.stream ORDER BY f.ord
    RETURNING n
  ), waiting AS (
    INSERT INTO {schema}.unrouted (event) SELECT n FROM added RETURNING event
  )
  SELECT min(event) INTO v_n FROM waiting;
  IF v_n IS NOT NULL AND p_ring THEN
    PERFORM {schema}.ring(v_n);
  END IF;
  IF NOT v_keyed THEN
    RETURN QUERY SELECT f.ord, f.id, coalesce(e.stream, f.id), e.seq, false
    FROM unnest(p_ids) WITH ORDINALITY f(id, ord) JOIN {schema}.events e ON e.id = f.id;
    RETURN;
  END IF;
  UPDATE {schema}.dedup d SET seq = e.seq
  FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord) JOIN {schema}.events e ON e.id = f.id
  WHERE f.ord = ANY (v_fresh) AND d.source = f.source AND d.key = f.key AND d.seq <> e.seq;
  RETURN QUERY SELECT f.ord, coalesce(d.event_id, f.id), coalesce(d.stream, e.stream, d.event_id, f.id),
                      coalesce(d.seq, e.seq), coalesce(d.event_id <> f.id, false)
  FROM unnest(p_ids, p_sources, p_keys) WITH ORDINALITY f(id, source, key, ord)
  LEFT JOIN {schema}.dedup d ON d.source = f.source AND d.key = f.key
  LEFT JOIN {schema}.events e ON e.id = f.id;
END $$;

-- `accept` with a fixed search_path, for callers that run it with the rights of the function's owner.
CREATE FUNCTION {schema}.accept_for_all(
  p_id text, p_type text, p_payload text, p_source text, p_stream text, p_timestamp text, p_properties text,
  p_key text, p_to text, p_not_before bigint, p_accepted_at bigint, p_digest text
) RETURNS {schema}.published LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN {schema}.accept(p_id, p_type, p_payload, p_source, p_stream, p_timestamp, p_properties,
                         p_key, p_to, p_not_before, p_accepted_at, p_digest, true);
END $$;

-- The door: one function for any language, in any transaction. Only `type` is required; it never commits. SECURITY
-- DEFINER with a fixed search_path: a role that may only call this needs no right on any table.
CREATE FUNCTION {schema}.publish(
  type text, payload text DEFAULT NULL, source text DEFAULT NULL, stream text DEFAULT NULL,
  "timestamp" text DEFAULT NULL, properties text DEFAULT NULL, dedup_key text DEFAULT NULL, "to" text DEFAULT NULL,
  not_before bigint DEFAULT NULL, id text DEFAULT NULL, accepted_at bigint DEFAULT NULL, digest text DEFAULT NULL
) RETURNS {schema}.published
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_n      bigint;
  v_id     text;
  v_before bigint;
BEGIN
  -- The case in which `accept` has nothing to look up. As few expressions as possible: each is prepared again in every
  -- transaction.
  IF length($1) BETWEEN 1 AND 255 AND $4 IS NULL AND $7 IS NULL AND $8 IS NULL AND $9 IS NULL AND $10 IS NULL
     AND ($2 IS NULL OR {schema}.is_json($2)) AND ($6 IS NULL OR $6 = '{}') THEN
    INSERT INTO {schema}.events (id, source, type, timestamp, accepted_at, payload)
    VALUES (
      'evt_' || lpad(to_hex({schema}.now_ms()), 12, '0') || right(replace(gen_random_uuid()::text, '-', ''), 20),
      coalesce($3, 'app'), $1,
      coalesce($5, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
      coalesce($11, {schema}.now_ms()), coalesce($2, 'null')
    ) RETURNING n, id INTO v_n, v_id;
    INSERT INTO {schema}.unrouted (event) VALUES (v_n);
    SELECT event INTO v_before FROM {schema}.unrouted WHERE event < v_n AND event >= v_n - 200
    ORDER BY event DESC LIMIT 1;
    IF v_before IS NULL THEN
      PERFORM pg_notify('holdfast_events', '');
    END IF;
    RETURN (v_id, v_id, 1::bigint, false);
  END IF;
  RETURN {schema}.accept_for_all($10, $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12);
END $$;
REVOKE ALL ON FUNCTION {schema}.publish FROM PUBLIC;

-- Close a stream: it takes no more events. The caller appends the last event before, in the same transaction. The update
-- waits for a transaction that is appending to the stream.
CREATE FUNCTION {schema}.close_stream(p_stream text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE {schema}.streams SET closed_at = {schema}.now_ms() WHERE id = p_stream AND closed_at IS NULL;
  IF NOT FOUND THEN
    PERFORM {schema}.refuse('HF003', 'stream is closed');
  END IF;
END $$;
REVOKE ALL ON FUNCTION {schema}.close_stream FROM PUBLIC;

-- An event is a fact: it is inserted and, after its retention, deleted. Nothing changes it.
CREATE FUNCTION {schema}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM {schema}.refuse('HF001', 'an event cannot be changed');
  RETURN NULL;
END $$;
CREATE TRIGGER events_fixed BEFORE UPDATE ON {schema}.events
  FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_change();

-- From PostgreSQL 18 on, the plan of a SQL function is kept for the session: one statement then does the work of four, and
-- needs no search_path because its names are bound here. Before 18 it would be planned in every call, so there the
-- function above stays. A payload of more than 2000 characters may be nested deeper than the server's stack allows.
DO $$
BEGIN
  IF current_setting('server_version_num')::integer < 180000 THEN
    RETURN;
  END IF;
  EXECUTE $sql$
    CREATE OR REPLACE FUNCTION {schema}.publish(
      type text, payload text DEFAULT NULL, source text DEFAULT NULL, stream text DEFAULT NULL,
      "timestamp" text DEFAULT NULL, properties text DEFAULT NULL, dedup_key text DEFAULT NULL, "to" text DEFAULT NULL,
      not_before bigint DEFAULT NULL, id text DEFAULT NULL, accepted_at bigint DEFAULT NULL, digest text DEFAULT NULL
    ) RETURNS {schema}.published LANGUAGE sql VOLATILE SECURITY DEFINER
    BEGIN ATOMIC
      WITH added AS (  -- the case in which `accept` has nothing to look up
        INSERT INTO {schema}.events (id, source, type, timestamp, accepted_at, payload)
        SELECT 'evt_' || replace(uuidv7()::text, '-', ''), coalesce($3, 'app'), $1,
               coalesce($5, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
               coalesce($11, {schema}.now_ms()), coalesce($2, 'null')
        WHERE length($1) BETWEEN 1 AND 255
          AND $4 IS NULL AND $7 IS NULL AND $8 IS NULL AND $9 IS NULL AND $10 IS NULL AND coalesce($6, '{}') = '{}'
          AND ($2 IS NULL OR CASE WHEN length($2) < 2000 THEN $2 IS JSON ELSE {schema}.is_json_guarded($2) END)
        RETURNING n, id
      ), waiting AS (
        INSERT INTO {schema}.unrouted AS w (event) SELECT n FROM added
        RETURNING CASE WHEN (SELECT u.event FROM {schema}.unrouted u
                             WHERE u.event < w.event AND u.event >= w.event - 200 ORDER BY u.event DESC LIMIT 1) IS NULL
                  THEN pg_notify('holdfast_events', '') END
      )
      SELECT coalesce(
        (SELECT ROW(added.id, added.id, 1, false)::{schema}.published FROM added),
        {schema}.accept_for_all($10, $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12));
    END $sql$;
END $$;

-- Route, claim, settle ---------------------------------------------------------------------------------------

-- One round trip for each of the most frequent steps. They are functions because each statement inside has to see rows
-- that were committed just before it, and because an unexpected finding undoes the statements before it.
-- Every join goes from a few hundred numbers to rows by an index. Statistics of a queue are always stale: without the
-- settings below, the planner sometimes reads the whole queue, or compares each lease with every other.

-- Take the router's lock, which lasts until the transaction ends and covers the whole schema (the table's oid is its key),
-- and return the contracts' version with the next events. No events: one row without an event. Lock taken: no row.
-- `alone`: one process works on this schema, so it may lease what it routes, and gets the payloads for it. A payload of
-- more than `p_payload_max` bytes is left empty.
-- Only events after `p_after` are read, because index entries of routed events stay until no snapshot needs them. `late`:
-- an event of the same stream waits before that position, since it was committed late, and has to be routed first.
CREATE FUNCTION {schema}.take_unrouted(p_limit bigint, p_payload_max bigint, p_after bigint) RETURNS TABLE (
  version bigint, alone boolean, late boolean, n bigint, id text, stream text, seq bigint, source text, type text, "timestamp" text,
  accepted_at bigint, properties text, payload text, address text, not_before bigint
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_alone boolean := p_payload_max > 0 AND (
    SELECT count(*) = 1 FROM (SELECT FROM {schema}.owners WHERE ended_at IS NULL LIMIT 2) o);
BEGIN
  IF pg_try_advisory_xact_lock('{schema}.unrouted'::regclass::oid::bigint::bit(32)::integer, 0) THEN
    RETURN QUERY
      SELECT m.value::bigint, v_alone, e.*
      FROM {schema}.meta m LEFT JOIN LATERAL (
        SELECT e.stream IS NOT NULL AND e.seq > 1 AND p_after > 0 AND EXISTS (
                 SELECT FROM {schema}.events b JOIN {schema}.unrouted w ON w.event = b.n
                 WHERE b.stream = e.stream AND b.seq = e.seq - 1 AND b.n <= p_after),
               e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties,
               CASE WHEN v_alone AND octet_length(e.payload) <= p_payload_max THEN e.payload ELSE '' END,
               e.address, e.not_before
        FROM (SELECT w.event FROM {schema}.unrouted w WHERE w.event > p_after ORDER BY w.event LIMIT p_limit) u
        JOIN {schema}.events e ON e.n = u.event) e ON true
      WHERE m.key = 'contracts_version' ORDER BY e.n;
  END IF;
END $$;

-- Lease each queue's share, oldest first, skipping rows that another process is taking. `p_limit` bounds the total. Where
-- several processes work (`p_owners`), a long queue is shared: each takes its part of what is due now, and the others find
-- the rest when they are notified. A short queue is not, or its rows would wait for a process that may be busy. Leases
-- run on the database's clock unless a test passes its own (`p_now`). `starts < 2` is SUSPECT_STARTS, written out so that
-- a partial index can serve the suspects.
CREATE FUNCTION {schema}.lease(
  p_owner bigint, p_token bigint, p_now bigint, p_queues bigint[], p_most bigint[], p_lease_ms bigint[], p_due bigint,
  p_limit bigint, p_owners bigint
) RETURNS TABLE (
  delivery bigint, queue bigint, starts integer, attempts integer, generation integer, handed boolean,
  n bigint, id text, stream text, seq bigint, source text, type text, "timestamp" text, accepted_at bigint,
  properties text, payload text, address text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := coalesce(p_now, {schema}.now_ms());
BEGIN
  -- A lease needs no flush: the flush of a later settle includes it, and after a crash the claim is repeated.
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH picked AS (
    SELECT p.delivery, w.lease_ms
    FROM unnest(p_queues, p_most, p_lease_ms) w(queue, most, lease_ms)
    CROSS JOIN LATERAL (
      SELECT r.delivery FROM {schema}.ready r
      WHERE r.token IS NULL AND r.queue = w.queue AND r.due_at <= p_due AND r.starts < 2
      ORDER BY r.due_at, r.delivery
      LIMIT CASE WHEN p_owners < 2 THEN w.most ELSE (
        SELECT CASE WHEN count(*) < 64 THEN w.most ELSE least(w.most, 1 + count(*) / p_owners) END
        FROM (SELECT FROM {schema}.ready c
              WHERE c.token IS NULL AND c.queue = w.queue AND c.due_at <= p_due AND c.starts < 2
              ORDER BY c.due_at, c.delivery LIMIT w.most * p_owners) due) END
      FOR UPDATE SKIP LOCKED) p
    LIMIT p_limit
  )
  UPDATE {schema}.ready r
  SET owner = p_owner, token = p_token, lease_until = v_now + picked.lease_ms, starts = r.starts + 1
  FROM picked WHERE r.delivery = picked.delivery;
  RETURN QUERY
    SELECT r.delivery, r.queue, r.starts, d.attempts, d.generation, d.handed_until IS NOT NULL,
           e.n, e.id, e.stream, e.seq, e.source, e.type, e.timestamp, e.accepted_at, e.properties, e.payload, e.address
    FROM (SELECT * FROM {schema}.ready WHERE token = p_token ORDER BY due_at, delivery OFFSET 0) r  -- sort narrow rows
    JOIN {schema}.deliveries d ON d.id = r.delivery JOIN {schema}.events e ON e.n = d.event
    ORDER BY r.due_at, r.delivery;
END $$;

-- End deliveries that were delivered, all of them still leased, with one receipt link after the known head of the chain.
-- Anything else refuses the whole call with HF004; the deliveries are then settled one by one. Tables are locked in the
-- same order as there. Returns whether new heads of lanes became ready.
CREATE FUNCTION {schema}.settle_delivered(
  p_ids bigint[], p_tokens bigint[], p_attempts integer[], p_at bigint,
  p_chain text, p_seq bigint, p_prev bytea, p_root bytea, p_hash bytea, p_leaves bytea
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
  v_count bigint;
  v_lanes bigint[];
  v_going bigint[];
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  DELETE FROM {schema}.ready r USING unnest(p_ids, p_tokens) w(delivery, token)
  WHERE r.delivery = w.delivery AND r.token IS NOT DISTINCT FROM w.token;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count <> cardinality(p_ids) THEN
    PERFORM {schema}.refuse('HF004', 'a lease was lost');
  END IF;
  WITH ended AS (
    UPDATE {schema}.deliveries d
    SET state = 'delivered', reason = NULL, attempts = w.attempts, settled_at = p_at, survivor = NULL,
        handed_until = NULL, last_error = NULL, pos = -abs(d.pos)
    FROM unnest(p_ids, p_attempts) w(id, attempts)
    WHERE d.id = w.id AND d.state = 'pending' RETURNING d.lane
  )
  SELECT count(*), array_agg(lane) FILTER (WHERE lane IS NOT NULL) INTO v_count, v_lanes FROM ended;
  IF v_count <> cardinality(p_ids) THEN
    PERFORM {schema}.refuse('HF004', 'one of them has ended already');
  END IF;
  IF v_lanes IS NOT NULL THEN
    WITH gone AS (
      SELECT lane, count(*) AS fewer FROM unnest(v_lanes) u(lane) GROUP BY lane
    ), locked AS (
      SELECT l.id, g.fewer FROM gone g JOIN {schema}.lanes l ON l.id = g.lane ORDER BY l.key FOR UPDATE OF l
    ), behind AS (
      UPDATE {schema}.lanes l SET open = l.open - locked.fewer FROM locked WHERE l.id = locked.id
      RETURNING l.id, l.open, l.paused
    )
    SELECT array_agg(id) FILTER (WHERE open > 0 AND NOT paused) INTO v_going FROM behind;
    IF v_going IS NOT NULL THEN
      INSERT INTO {schema}.ready (delivery, queue, due_at)
      SELECT head.id, head.queue, p_at FROM unnest(v_going) u(lane)
      CROSS JOIN LATERAL (
        SELECT d.id, d.queue, d.handed_until FROM {schema}.deliveries d
        WHERE d.lane = u.lane AND d.pos > 0 ORDER BY d.pos LIMIT 1) head
      WHERE head.handed_until IS NULL
      ON CONFLICT DO NOTHING;
    END IF;
  END IF;
  UPDATE {schema}.nodes SET seq = p_seq, head = p_hash WHERE chain = p_chain AND seq = p_seq - 1 AND head = p_prev;
  IF NOT FOUND THEN
    PERFORM {schema}.refuse('HF004', 'the chain has grown meanwhile');
  END IF;
  INSERT INTO {schema}.receipts (chain, seq, at, prev, root, h_self, leaves)
  VALUES (p_chain, p_seq, p_at, p_prev, p_root, p_hash, p_leaves);
  RETURN v_going IS NOT NULL;
END $$;
