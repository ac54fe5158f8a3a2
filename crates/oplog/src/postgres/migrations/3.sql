-- Layout 3: the list of replicas, and requests to hand over.

-- Time of the newest heartbeat by the database's clock. Only for lists: no decision depends on it.
ALTER TABLE replica ADD COLUMN beat_at timestamptz;
-- Set by `tidegate replicas drain`. The replica then hands over its shards and stops.
ALTER TABLE replica ADD COLUMN drain_requested_at timestamptz;
