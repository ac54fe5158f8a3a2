-- Layout 1 of the operation log in PostgreSQL.
--
-- Later migrations only add columns, tables and indexes, so that replicas of two versions can run side by side.

CREATE TABLE meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  log uuid NOT NULL,
  layout int NOT NULL,
  -- Fingerprint of the key that seals the blobs.
  key_id text NOT NULL
);

-- Processes that use this log. A process counts its heartbeats, and the others watch the count.
CREATE TABLE replica (
  incarnation uuid PRIMARY KEY,
  name text NOT NULL,
  version text NOT NULL,
  layout int NOT NULL,
  beat bigint NOT NULL DEFAULT 0,
  -- Set by another replica that takes over the shards of this one.
  evicted_by text,
  evicted_at timestamptz,
  joined_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Parts of the log, each with at most one writer. Every append locks the rows of its shards.
CREATE TABLE shard (
  id smallint PRIMARY KEY,
  epoch bigint NOT NULL DEFAULT 1,
  owner uuid REFERENCES replica ON DELETE SET NULL
) WITH (fillfactor = 25);
INSERT INTO shard (id) SELECT generate_series(0, 255);

CREATE TABLE stream (
  id uuid PRIMARY KEY,
  shard smallint NOT NULL,
  kind int NOT NULL,
  kind_name text NOT NULL,
  application text,
  appset text,
  -- Milliseconds since 1970.
  started_at bigint NOT NULL,
  finished_at bigint,
  -- Epoch and name of the last writer within the stream.
  epoch bigint NOT NULL,
  taken_by text NOT NULL,
  -- Sequence numbers and chain digests of the last removed and of the last stored event.
  base bigint NOT NULL DEFAULT 0,
  base_digest bytea NOT NULL,
  last bigint NOT NULL,
  digest bytea NOT NULL,
  snapshot bigint,
  reduced boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX stream_application ON stream (application, id);
CREATE INDEX stream_appset ON stream (appset, id) WHERE appset IS NOT NULL;
CREATE INDEX stream_open ON stream (id) WHERE finished_at IS NULL;
CREATE INDEX stream_kind ON stream (kind, id);
CREATE INDEX stream_finished ON stream (kind, application, (CASE WHEN application IS NULL THEN appset END), id DESC)
  WHERE finished_at IS NOT NULL;

-- Details of the listing entries, written only when they change.
CREATE TABLE details (
  stream uuid PRIMARY KEY REFERENCES stream ON DELETE CASCADE,
  kind int NOT NULL,
  content bytea NOT NULL
);

-- Events: the framed records of one append.
CREATE TABLE batch (
  stream uuid NOT NULL REFERENCES stream ON DELETE CASCADE,
  first bigint NOT NULL,
  last bigint NOT NULL,
  frames bytea NOT NULL,
  PRIMARY KEY (stream, first)
);

-- The newest snapshot of each stream, with the chain digest of the events that it covers.
CREATE TABLE snapshot (
  stream uuid PRIMARY KEY REFERENCES stream ON DELETE CASCADE,
  sequence bigint NOT NULL,
  digest bytea NOT NULL,
  frame bytea NOT NULL
);

-- Content alongside the log: sealed, named after a keyed digest, in parts of at most 1 MiB.
CREATE TABLE blob (
  digest bytea PRIMARY KEY,
  parts int NOT NULL
);
CREATE TABLE blob_part (
  digest bytea NOT NULL REFERENCES blob ON DELETE CASCADE,
  part int NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (digest, part)
);
ALTER TABLE blob_part ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Streams that refer to a blob, and replicas that have stored one and not referred to it yet. Both protect it.
CREATE TABLE reference (
  stream uuid NOT NULL REFERENCES stream ON DELETE CASCADE,
  digest bytea NOT NULL REFERENCES blob,
  PRIMARY KEY (stream, digest)
);
CREATE INDEX reference_digest ON reference (digest);
CREATE TABLE blob_hold (
  -- Without a cascade: a blob with a hold cannot be removed.
  digest bytea NOT NULL REFERENCES blob,
  incarnation uuid NOT NULL REFERENCES replica ON DELETE CASCADE,
  PRIMARY KEY (digest, incarnation)
);
CREATE INDEX blob_hold_incarnation ON blob_hold (incarnation);

CREATE TABLE inventory (
  cluster text NOT NULL,
  application text NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (cluster, application)
);

-- Small named values, such as stored plans.
CREATE TABLE kept (
  kind smallint NOT NULL,
  name text NOT NULL,
  content bytea NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, name)
);
