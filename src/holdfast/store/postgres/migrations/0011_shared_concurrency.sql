-- How many of a contract's deliveries may be under way at a time, over all processes. Read off the contract by the table
-- itself, so that no way of changing a contract can forget to.
ALTER TABLE holdfast.contracts ADD COLUMN concurrency integer
  GENERATED ALWAYS AS ((contract_json::json ->> 'concurrency')::integer) STORED;

-- Whether there are several of them is asked with every claim.
CREATE INDEX owners_alive ON holdfast.owners (id) WHERE ended_at IS NULL;

-- When retention last removed the last event of a stream: its row is kept for long after that.
ALTER TABLE holdfast.streams ADD COLUMN emptied_at bigint;
CREATE INDEX streams_emptied ON holdfast.streams (emptied_at) WHERE emptied_at IS NOT NULL;

-- What `status` counts, kept up to date by the router and by retention, so that nothing has to be scanned. It covers the
-- events that were routed and are still kept; `streams` counts those that were the first of their stream. Publishers do
-- not touch the row, or they would wait for each other.
CREATE TABLE holdfast.counts (
  one       smallint PRIMARY KEY CHECK (one = 1),
  events    bigint NOT NULL,
  unmatched bigint NOT NULL,
  streams   bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO holdfast.counts (one, events, unmatched, streams)
SELECT 1, (SELECT count(*) FROM holdfast.events) - (SELECT count(*) FROM holdfast.unrouted),
       (SELECT count(*) FROM holdfast.unmatched),
       (SELECT count(*) FROM holdfast.streams)
         - (SELECT count(*) FROM holdfast.unrouted u JOIN holdfast.events e ON e.n = u.event
            WHERE e.seq = 1 AND e.stream IS NOT NULL);
