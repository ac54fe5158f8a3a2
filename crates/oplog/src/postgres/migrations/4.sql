-- Layout 4: requests forwarded to the leader.

-- URL of the replica's API for the other replicas, if they can reach it.
ALTER TABLE replica ADD COLUMN address text;
