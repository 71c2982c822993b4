-- What a consumer has handled, written in its own transaction: the second delivery of an event finds it here.

CREATE TABLE holdfast.inbox (
  consumer   text COLLATE "C" NOT NULL,
  event_id   text COLLATE "C" NOT NULL,
  handled_at bigint NOT NULL,
  PRIMARY KEY (consumer, event_id)
);
CREATE INDEX inbox_by_time ON holdfast.inbox (handled_at);
