-- The router's place: one number instead of a row for every event that waits. A file has one writer, so that the
-- numbers of events are committed in their order, and AUTOINCREMENT never gives one twice: what lies beyond the place is
-- what waits.

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
