-- How many of a contract's deliveries may be under way at a time, over all processes. Read off the contract by the table
-- itself, so that no way of changing a contract can forget to.
ALTER TABLE holdfast.contracts ADD COLUMN concurrency integer
  GENERATED ALWAYS AS ((contract_json::json ->> 'concurrency')::integer) STORED;

-- Whether there are several of them is asked with every claim.
CREATE INDEX owners_alive ON holdfast.owners (id) WHERE ended_at IS NULL;
