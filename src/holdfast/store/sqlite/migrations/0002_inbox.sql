-- The inbox of consumers: which events each has handled, written in the consumer's own transaction.

CREATE TABLE holdfast_inbox (
  consumer   TEXT    NOT NULL,
  event_id   TEXT    NOT NULL,
  handled_at INTEGER NOT NULL,
  PRIMARY KEY (consumer, event_id)
) WITHOUT ROWID;
CREATE INDEX holdfast_inbox_by_time ON holdfast_inbox (handled_at);
