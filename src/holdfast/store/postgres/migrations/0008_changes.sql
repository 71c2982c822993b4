-- Who keeps the contracts in memory reads only what changed since: each row knows the version that its last change
-- belongs to. A trigger writes it down, so that no way of changing a contract can forget to. Every change is followed
-- by the step of `contracts_version`, in the same transaction: the version to come is the next one. The lock makes that
-- true for two who change different contracts at once: without it the second would belong to the version of the first.

ALTER TABLE holdfast.contracts ADD COLUMN version bigint NOT NULL DEFAULT 0;
CREATE INDEX contracts_by_version ON holdfast.contracts (version);

CREATE FUNCTION holdfast.stamp_contract() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT m.value::bigint + 1 INTO NEW.version FROM holdfast.meta m WHERE m.key = 'contracts_version' FOR UPDATE;
  RETURN NEW;
END $$;

CREATE TRIGGER contracts_stamped BEFORE INSERT OR UPDATE ON holdfast.contracts
  FOR EACH ROW EXECUTE FUNCTION holdfast.stamp_contract();

-- A delivery's receipts are found by the moments of its transitions: a link and what it speaks of have the same.
CREATE INDEX receipts_by_time ON holdfast.receipts (at);
