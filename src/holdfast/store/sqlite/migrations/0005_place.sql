-- The router's place: one number instead of a row for every event that waits. A file has one writer, so that the
-- numbers of events are committed in their order, and AUTOINCREMENT never gives one twice: what lies beyond the place is
-- what waits.

-- When retention last removed the last event of a stream: its row is kept for long after that.
ALTER TABLE holdfast_streams ADD COLUMN emptied_at INTEGER;
CREATE INDEX holdfast_streams_emptied ON holdfast_streams (emptied_at) WHERE emptied_at IS NOT NULL;

-- What `status` counts, kept up to date by the statements that change it, so that nothing has to be scanned. `events`
-- and `unmatched` are those that were routed and are still kept; what waits for the router is known by its numbers.
CREATE TABLE holdfast_counts (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  events    INTEGER NOT NULL,
  unmatched INTEGER NOT NULL,
  streams   INTEGER NOT NULL
);
INSERT INTO holdfast_counts (one, events, unmatched, streams)
SELECT 1, (SELECT count(*) FROM holdfast_events) - (SELECT count(*) FROM holdfast_unrouted),
       (SELECT count(*) FROM holdfast_unmatched), (SELECT count(*) FROM holdfast_streams);

CREATE TRIGGER holdfast_streams_added AFTER INSERT ON holdfast_streams BEGIN
  UPDATE holdfast_counts SET streams = streams + 1;
END;

CREATE TRIGGER holdfast_streams_removed AFTER DELETE ON holdfast_streams BEGIN
  UPDATE holdfast_counts SET streams = streams - 1;
END;

-- The place itself.
CREATE TABLE holdfast_router (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  place INTEGER NOT NULL CHECK (place >= 0)           -- every event up to this one was routed
);

-- Events behind the place that are to be routed again.
CREATE TABLE holdfast_again (event INTEGER PRIMARY KEY);

-- What waits now may have gaps, and what lies in a gap was routed: it is taken over row by row, behind a place at the
-- end of everything there is.
INSERT INTO holdfast_again (event) SELECT event FROM holdfast_unrouted;
INSERT INTO holdfast_router (one, place) SELECT 1, coalesce(max(n), 0) FROM holdfast_events;

DROP TRIGGER holdfast_events_unrouted;
DROP TABLE holdfast_unrouted;

CREATE VIEW holdfast_unrouted AS
  SELECT event FROM holdfast_again
  UNION ALL
  SELECT n FROM holdfast_events WHERE n > (SELECT place FROM holdfast_router);
