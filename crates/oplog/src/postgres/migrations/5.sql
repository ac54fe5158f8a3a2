-- Layout 5: replicas that share the shards.

-- True if the replica takes over single shards, and hands them over on request.
ALTER TABLE replica ADD COLUMN shares boolean NOT NULL DEFAULT false;
-- Replica that has asked the owner to hand over the shard.
ALTER TABLE shard ADD COLUMN requested_by uuid;
