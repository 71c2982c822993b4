-- Who keeps the contracts in memory reads only what changed since: each row knows the version that its last change
-- belongs to. A trigger writes it down, so that no way of changing a contract can forget to. Every change is followed
-- by the step of `contracts_version`, in the same transaction: the version to come is the next one.

ALTER TABLE holdfast_contracts ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
CREATE INDEX holdfast_contracts_by_version ON holdfast_contracts (version);

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

-- A delivery's receipts are found by the moments of its transitions: a link and what it speaks of have the same.
CREATE INDEX holdfast_receipts_by_time ON holdfast_receipts (at);
