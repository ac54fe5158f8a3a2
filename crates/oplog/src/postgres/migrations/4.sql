-- Layout 4: requests forwarded to the leader.

-- URL of the replica's API for the other replicas, if they can reach it.
ALTER TABLE replica ADD COLUMN address text;
-- Keyed digest of the incarnation and the address. Replicas send credentials only to addresses of services with the key.
ALTER TABLE replica ADD COLUMN address_digest bytea;
