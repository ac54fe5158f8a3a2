//! Reads and lookups of streams. Each reads from one snapshot of the database, in a single statement.

use std::fmt::Write as _;

use tidegate_model::{Digest, StreamId, Timestamp};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::Inner;
use super::append::{digest, kind, unsigned};
use super::connection::{Parameter, within};
use super::distribution::Shard;
use crate::frame::{self, Address, Family};
use crate::store::chain_digest;
use crate::{Epoch, History, LoadedStream, LogError, Lookup, RawEntry, RawLoadedStream, Record, Summary};

/// Columns of a listing entry.
const ENTRY_COLUMNS: &str = "s.id, s.kind, s.kind_name, s.epoch, s.last, s.application, s.appset, s.started_at, \
     s.finished_at, d.kind, d.content, s.shard";

/// Record of a stream. Records that were copied from a state directory may contain the digest of a blob instead of
/// their content.
struct StoredRecord {
    record: Record,
    is_external: bool,
}

/// Stream with the events after a sequence number.
struct StoredEvents {
    kind: tidegate_model::StreamKind,
    epoch: Epoch,
    base: u64,
    last: u64,
    snapshot: Option<(u64, StoredRecord)>,
    events: Vec<StoredRecord>,
}

impl Inner {
    pub(super) async fn load_stream(
        &self,
        client: &Client,
        stream: StreamId,
    ) -> Result<RawLoadedStream, LogError> {
        let stored = read_stored(client, stream, true).await?;
        let snapshot = match stored.snapshot {
            Some((sequence, record)) => Some((sequence, self.read_content(client, stream, record).await?)),
            None => None,
        };
        Ok(LoadedStream {
            kind: stored.kind,
            epoch: stored.epoch,
            snapshot,
            events: self.read_contents(client, stream, stored.events).await?,
            last_sequence: stored.last,
        })
    }

    /// Reads the content of records that is stored in blobs.
    async fn read_contents(
        &self,
        client: &Client,
        stream: StreamId,
        records: Vec<StoredRecord>,
    ) -> Result<Vec<Record>, LogError> {
        let mut read = Vec::with_capacity(records.len());
        for record in records {
            read.push(self.read_content(client, stream, record).await?);
        }
        Ok(read)
    }

    async fn read_content(
        &self,
        client: &Client,
        stream: StreamId,
        StoredRecord { record, is_external }: StoredRecord,
    ) -> Result<Record, LogError> {
        if !is_external {
            return Ok(record);
        }
        let damaged = |reason: String| LogError::DamagedRows { stream: stream.into(), reason };
        let name = Digest(
            record.content.try_into().map_err(|_| damaged("a record does not refer to a blob".to_owned()))?,
        );
        let content = match self.read_blob(client, name).await {
            Ok(sealed) => self.unseal(name, &sealed),
            Err(error) => Err(error),
        };
        match content {
            Ok(content) => Ok(Record { kind: record.kind, content }),
            Err(error @ (LogError::BlobMissing { .. } | LogError::BlobDamaged { .. })) => {
                Err(damaged(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn read_all_events(
        &self,
        client: &Client,
        stream: StreamId,
    ) -> Result<History<Record>, LogError> {
        let stored = read_stored(client, stream, false).await?;
        Ok(History {
            kind: stored.kind,
            first_sequence: stored.base.saturating_add(1),
            events: self.read_contents(client, stream, stored.events).await?,
        })
    }

    pub(super) async fn read_entry(
        &self,
        client: &Client,
        stream: StreamId,
    ) -> Result<Option<RawEntry>, LogError> {
        let query =
            format!("SELECT {ENTRY_COLUMNS} FROM stream s JOIN details d ON d.stream = s.id WHERE s.id = $1");
        within("read a stream", async {
            let row = client.query_typed_opt(&query, &[(&stream.0, Type::UUID)]).await?;
            row.as_ref().map(entry).transpose()
        })
        .await
    }

    pub(super) async fn find_entries(
        &self,
        client: &Client,
        lookup: &Lookup,
    ) -> Result<Vec<RawEntry>, LogError> {
        let Lookup { application, appset, open, kind, has_known_kind } = lookup;
        let kind = kind.as_ref().map(|kind| i32::from(kind.number()));
        let known = self.known_kinds();
        let mut query =
            format!("SELECT {ENTRY_COLUMNS} FROM stream s JOIN details d ON d.stream = s.id WHERE true");
        let mut parameters: Vec<Parameter<'_>> = Vec::new();
        // Writing to a string cannot fail.
        let mut add = |condition: &str, value, of| {
            parameters.push((value, of));
            let _ = write!(query, " AND {condition}{}", parameters.len());
        };
        if let Some(application) = application {
            add("s.application = $", application, Type::TEXT);
        }
        if let Some(appset) = appset {
            add("s.appset = $", appset, Type::TEXT);
        }
        if let Some(kind) = &kind {
            add("s.kind = $", kind, Type::INT4);
        }
        if let Some(is_known) = has_known_kind {
            let condition = if *is_known { "s.kind = ANY($" } else { "s.kind <> ALL($" };
            add(condition, &known, Type::INT4_ARRAY);
            query.push(')');
        }
        match open {
            Some(true) => query.push_str(" AND s.finished_at IS NULL"),
            Some(false) => query.push_str(" AND s.finished_at IS NOT NULL"),
            None => {}
        }
        query.push_str(" ORDER BY s.id");
        within("look up streams", async {
            client.query_typed(&query, &parameters).await?.iter().map(entry).collect()
        })
        .await
    }

    pub(super) async fn read_ids(&self, client: &Client) -> Result<Vec<StreamId>, LogError> {
        within("list streams", async {
            let rows = client.query_typed("SELECT id FROM stream ORDER BY id", &[]).await?;
            rows.iter().map(|row| row.try_get(0).map(StreamId)).collect()
        })
        .await
    }
}

fn entry(row: &Row) -> Result<RawEntry, tokio_postgres::Error> {
    let stream = StreamId(row.try_get(0)?);
    let details: i32 = row.try_get(9)?;
    let summary = Summary {
        application: row.try_get(5)?,
        set: row.try_get(6)?,
        started_at: Timestamp::from_millis(row.try_get(7)?),
        finished_at: row.try_get::<_, Option<i64>>(8)?.map(Timestamp::from_millis),
        details: Record { kind: u16::try_from(details).unwrap_or_default(), content: row.try_get(10)? },
    };
    Ok(RawEntry {
        stream,
        kind: kind(row.try_get(1)?, row.try_get(2)?),
        shard: Shard::from_row(row.try_get(11)?).unwrap_or_else(|| summary.default_shard(stream)),
        epoch: Epoch::new(unsigned(row.try_get(3)?)).unwrap_or(Epoch::FIRST),
        sequence: unsigned(row.try_get(4)?),
        summary,
    })
}

/// Reads a stream: the newest snapshot and the events after it, or all stored events.
async fn read_stored(
    client: &Client,
    stream: StreamId,
    with_snapshot: bool,
) -> Result<StoredEvents, LogError> {
    const QUERY: &str = "SELECT s.kind, s.kind_name, s.epoch, s.base, s.base_digest, s.last, s.digest, s.reduced, \
         n.sequence, n.digest, n.frame, ARRAY(SELECT b.frames FROM batch b WHERE b.stream = s.id AND b.last > \
         coalesce(n.sequence, s.base) ORDER BY b.first) \
         FROM stream s LEFT JOIN snapshot n ON n.stream = s.id AND $2 WHERE s.id = $1";
    let row = within(
        "read a stream",
        client.query_typed_opt(QUERY, &[(&stream.0, Type::UUID), (&with_snapshot, Type::BOOL)]),
    )
    .await?
    .ok_or(LogError::UnknownStream { stream: stream.into() })?;
    decode_stored(stream, &row).map_err(|error| match error {
        DecodeError::Row(error) => super::connection::call_error("read a stream", &error),
        DecodeError::Log(error) => error,
    })
}

fn stored_record(framed: &frame::FramedRecord<'_>) -> StoredRecord {
    let record = Record { kind: framed.kind, content: framed.payload.to_vec() };
    StoredRecord { record, is_external: framed.is_external }
}

enum DecodeError {
    Row(tokio_postgres::Error),
    Log(LogError),
}

impl From<tokio_postgres::Error> for DecodeError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Row(error)
    }
}

fn decode_stored(stream: StreamId, row: &Row) -> Result<StoredEvents, DecodeError> {
    let damaged = |reason: String| DecodeError::Log(LogError::DamagedRows { stream: stream.into(), reason });
    if row.try_get(7)? {
        return Err(DecodeError::Log(LogError::Compacted { stream: stream.into() }));
    }
    let (base, last) = (unsigned(row.try_get(3)?), unsigned(row.try_get(5)?));
    let mut number = base;
    let mut chain: Digest = digest(row.try_get(4)?);
    let mut snapshot = None;
    if let Some(sequence) = row.try_get::<_, Option<i64>>(8)? {
        number = unsigned(sequence);
        chain = digest(row.try_get(9)?);
        let bytes: Vec<u8> = row.try_get(10)?;
        let framed = frame::open_frame(Family::Snapshot, stream, Some(number), &bytes)
            .map_err(|error| damaged(format!("its snapshot: {error}")))?;
        snapshot = Some((number, stored_record(&framed)));
    }
    let mut events = Vec::new();
    for batch in row.try_get::<_, Vec<&[u8]>>(11)? {
        let mut rest = batch;
        while !rest.is_empty() {
            let (framed, after) = frame::parse_frame(rest)
                .map_err(|error| damaged(format!("event {}: {error}", number + 1)))?;
            let record = rest.get(..rest.len().saturating_sub(after.len())).unwrap_or_default();
            rest = after;
            // A group that continues after its snapshot is stored as one batch.
            if framed.address.number <= number {
                continue;
            }
            number = number.saturating_add(1);
            let expected = Address { family: Family::Event, stream, number };
            if framed.address != expected {
                return Err(damaged(format!("event {number} is missing")));
            }
            chain = chain_digest(chain, record);
            events.push(stored_record(&framed));
        }
    }
    if number != last || chain != digest(row.try_get(6)?) {
        return Err(damaged(format!(
            "its {number} events do not match the recorded end (event {last}) and digest"
        )));
    }
    Ok(StoredEvents {
        kind: kind(row.try_get(0)?, row.try_get(1)?),
        epoch: Epoch::new(unsigned(row.try_get(2)?)).unwrap_or(Epoch::FIRST),
        base,
        last,
        snapshot,
        events,
    })
}
