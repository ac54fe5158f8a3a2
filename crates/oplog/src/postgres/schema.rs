//! The tables of the log, and their numbered migrations.
//!
//! Migrations only add to the schema, so a replica that has joined can continue while a newer one migrates it. A
//! replica cannot join a schema that is newer than its program.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::connection::{PostgresTarget, call_error, within};
use crate::{Fingerprint, LogError};

/// Migrations in order. The first one creates layout 1.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
];

/// First layout with marks of incomplete copies.
const COPY_LAYOUT: i32 = 2;
/// First layout whose replicas notice requests to hand over.
pub(super) const DRAIN_LAYOUT: i32 = 3;
/// First layout with all columns of the list of replicas.
const LIST_LAYOUT: i32 = 4;
/// Limit for a migration that waits for a lock on a table. Otherwise, the heartbeats of other replicas would wait
/// behind it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

/// Number of attempts to create the schema while other replicas do the same.
const ATTEMPTS: usize = 5;

/// Newest layout that this program knows.
pub(super) fn newest_layout() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// Log in a database, and the program that joins it.
#[derive(Clone, Copy)]
pub(super) struct Joining<'a> {
    /// Location of the log for messages.
    pub(super) target: &'a str,
    pub(super) schema: &'a str,
    pub(super) key: Fingerprint,
    /// ID of the log if it is new.
    pub(super) new_log: Uuid,
    /// True if the program copies another log to this one.
    pub(super) is_copy: bool,
}

/// Creates or migrates the tables, and checks that the log can be used with this key.
///
/// # Errors
///
/// Returns an error if the schema is newer than this program, if the log is encrypted with another key, or if it is an
/// incomplete copy.
pub(super) async fn migrate(client: &Client, joining: Joining<'_>) -> Result<Uuid, LogError> {
    let mut attempt = 1;
    loop {
        match try_migrate(client, joining).await {
            // Two replicas created the same object at the same time.
            Err(MigrationError::Race) if attempt < ATTEMPTS => attempt += 1,
            result => return result.map_err(|error| error.into_log_error("create the tables")),
        }
    }
}

enum MigrationError {
    Race,
    Log(LogError),
}

impl MigrationError {
    fn into_log_error(self, action: &'static str) -> LogError {
        match self {
            Self::Log(error) => error,
            Self::Race => {
                LogError::Database { action, reason: "another process keeps changing the schema".to_owned() }
            }
        }
    }
}

impl From<tokio_postgres::Error> for MigrationError {
    fn from(error: tokio_postgres::Error) -> Self {
        let races = [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_OBJECT,
        ];
        match error.code() {
            Some(code) if races.contains(code) => Self::Race,
            _ => Self::Log(call_error("create the tables", &error)),
        }
    }
}

/// Checks an existing log without changing it. Returns its ID, or `None` if the log
/// doesn't exist.
pub(super) async fn check_existing(client: &Client, joining: Joining<'_>) -> Result<Option<Uuid>, LogError> {
    let checked = async {
        if !has_log(client, joining.schema).await? {
            return Ok(None);
        }
        let row = client.query_typed_one("SELECT layout, key_id, log FROM meta", &[]).await?;
        check_meta(joining, row.try_get(0)?, row.try_get(1)?).map_err(MigrationError::Log)?;
        check_complete(client, joining).await.map_err(MigrationError::Log)?;
        Ok(Some(row.try_get(2)?))
    };
    checked.await.map_err(|error: MigrationError| error.into_log_error("read the log"))
}

/// Checks that the log has the columns of the list of replicas. Returns false if the log doesn't exist.
pub(super) async fn check_replica_list(client: &Client, target: &PostgresTarget) -> Result<bool, LogError> {
    let layout = async {
        if !has_log(client, target.schema()).await? {
            return Ok(None);
        }
        Ok(Some(client.query_typed_one("SELECT layout FROM meta", &[]).await?.try_get::<_, i32>(0)?))
    };
    match layout.await.map_err(|error: MigrationError| error.into_log_error("read the log"))? {
        Some(found) if found < LIST_LAYOUT => {
            Err(LogError::OlderSchema { target: target.to_string(), found, wanted: LIST_LAYOUT })
        }
        Some(found) => check_known_layout(target.to_string(), found).map(|()| true),
        None => Ok(false),
    }
}

fn check_known_layout(target: String, found: i32) -> Result<(), LogError> {
    let known = newest_layout();
    if found > known { Err(LogError::NewerSchema { target, found, known }) } else { Ok(()) }
}

/// Returns the location of the log of which this one is an incomplete copy, if it is.
pub(super) async fn read_incomplete_copy(client: &Client) -> Result<Option<String>, LogError> {
    within("read the log", async {
        let layout: i32 = client.query_typed_one("SELECT layout FROM meta", &[]).await?.try_get(0)?;
        if layout < COPY_LAYOUT {
            return Ok(None);
        }
        client.query_typed_one("SELECT incomplete_copy FROM meta", &[]).await?.try_get(0)
    })
    .await
}

async fn check_complete(client: &Client, joining: Joining<'_>) -> Result<(), LogError> {
    match read_incomplete_copy(client).await? {
        Some(source_log) if !joining.is_copy => {
            Err(LogError::IncompleteCopy { location: joining.target.to_owned(), source_log })
        }
        _ => Ok(()),
    }
}

/// Checks the layout and the key of an existing log.
fn check_meta(joining: Joining<'_>, layout: i32, wanted: String) -> Result<(), LogError> {
    let (target, found) = (joining.target.to_owned(), joining.key.to_string());
    if wanted != found {
        return Err(LogError::DatabaseKey { target, wanted, found });
    }
    check_known_layout(target, layout)
}

async fn has_log(client: &Client, schema: &str) -> Result<bool, MigrationError> {
    let row = client
        .query_typed_one(
            "SELECT to_regclass($1) IS NOT NULL",
            &[(&format!("{schema}.meta"), tokio_postgres::types::Type::TEXT)],
        )
        .await?;
    Ok(row.try_get(0)?)
}

async fn try_migrate(client: &Client, joining: Joining<'_>) -> Result<Uuid, MigrationError> {
    let schema = joining.schema;
    let exists = has_log(client, schema).await?;
    let has_schema = client
        .query_typed_one(
            "SELECT to_regnamespace($1) IS NOT NULL",
            &[(&schema, tokio_postgres::types::Type::TEXT)],
        )
        .await?
        .try_get::<_, bool>(0)?;
    // `IF NOT EXISTS` would require permission to create schemas even if this one exists.
    if !has_schema {
        client.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
    }
    client.batch_execute("BEGIN").await?;
    let result = migrate_in_transaction(client, joining, exists).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = within("create the tables", client.batch_execute(end)).await;
    let log = result?;
    ended.map_err(MigrationError::Log)?;
    Ok(log)
}

async fn migrate_in_transaction(
    client: &Client,
    joining: Joining<'_>,
    exists: bool,
) -> Result<Uuid, MigrationError> {
    let (mut layout, mut id) = (0, joining.new_log);
    if exists {
        let row = client.query_one("SELECT layout, key_id, log FROM meta FOR UPDATE", &[]).await?;
        layout = row.try_get::<_, i32>(0)?;
        id = row.try_get(2)?;
        check_meta(joining, layout, row.try_get(1)?).map_err(MigrationError::Log)?;
    }
    let known = newest_layout();
    let done = usize::try_from(layout).unwrap_or(usize::MAX);
    if layout > 0 && layout < known {
        client.batch_execute(LOCK_TIMEOUT).await?;
    }
    for migration in MIGRATIONS.iter().skip(done) {
        client.batch_execute(migration).await?;
    }
    if layout == 0 {
        client
            .execute(
                "INSERT INTO meta (log, layout, key_id) VALUES ($1, $2, $3)",
                &[&id, &known, &joining.key.to_string()],
            )
            .await?;
    } else if layout < known {
        client.execute("UPDATE meta SET layout = $1", &[&known]).await?;
    }
    check_complete(client, joining).await.map_err(MigrationError::Log)?;
    Ok(id)
}
