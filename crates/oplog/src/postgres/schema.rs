//! The tables of the log, and their numbered migrations.
//!
//! Migrations only add to the schema, so a replica that has joined can continue while a newer one migrates it. A
//! replica cannot join a schema that is newer than its program.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::connection::{call_error, within};
use crate::{Fingerprint, LogError};

/// Migrations in order. The first one creates layout 1.
const MIGRATIONS: &[&str] = &[include_str!("migrations/1.sql")];

/// Number of attempts to create the schema while other replicas do the same.
const ATTEMPTS: usize = 5;

/// Newest layout that this program knows.
pub(super) fn newest_layout() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// Creates or migrates the tables, and checks that the log uses this key.
///
/// # Errors
///
/// Returns an error if the schema is newer than this program, or if the log is encrypted with another key.
pub(super) async fn migrate(
    client: &Client,
    target: &str,
    schema: &str,
    key: Fingerprint,
    log: Uuid,
) -> Result<Uuid, LogError> {
    let mut attempt = 1;
    loop {
        match try_migrate(client, target, schema, key, log).await {
            // Two replicas created the same object at the same time.
            Err(MigrationError::Race) if attempt < ATTEMPTS => attempt += 1,
            Err(MigrationError::Race) => {
                let reason = "another process keeps changing the schema".to_owned();
                return Err(LogError::Database { action: "create the tables", reason });
            }
            Err(MigrationError::Log(error)) => return Err(error),
            Ok(log) => return Ok(log),
        }
    }
}

enum MigrationError {
    Race,
    Log(LogError),
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

async fn try_migrate(
    client: &Client,
    target: &str,
    schema: &str,
    key: Fingerprint,
    log: Uuid,
) -> Result<Uuid, MigrationError> {
    let exists = client
        .query_typed_one(
            "SELECT to_regclass($1) IS NOT NULL",
            &[(&format!("{schema}.meta"), tokio_postgres::types::Type::TEXT)],
        )
        .await?
        .try_get::<_, bool>(0)?;
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
    let result = migrate_in_transaction(client, target, exists, key, log).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = within("create the tables", client.batch_execute(end)).await;
    let log = result?;
    ended.map_err(MigrationError::Log)?;
    Ok(log)
}

async fn migrate_in_transaction(
    client: &Client,
    target: &str,
    exists: bool,
    key: Fingerprint,
    log: Uuid,
) -> Result<Uuid, MigrationError> {
    let (mut layout, mut id) = (0, log);
    if exists {
        let row = client.query_one("SELECT layout, key_id, log FROM meta FOR UPDATE", &[]).await?;
        layout = row.try_get::<_, i32>(0)?;
        let wanted: String = row.try_get(1)?;
        id = row.try_get(2)?;
        if wanted != key.to_string() {
            let (target, found) = (target.to_owned(), key.to_string());
            return Err(MigrationError::Log(LogError::DatabaseKey { target, wanted, found }));
        }
    }
    let known = newest_layout();
    if layout > known {
        return Err(MigrationError::Log(LogError::NewerSchema {
            target: target.to_owned(),
            found: layout,
            known,
        }));
    }
    let done = usize::try_from(layout).unwrap_or(usize::MAX);
    for migration in MIGRATIONS.iter().skip(done) {
        client.batch_execute(migration).await?;
    }
    if layout == 0 {
        client
            .execute(
                "INSERT INTO meta (log, layout, key_id) VALUES ($1, $2, $3)",
                &[&log, &known, &key.to_string()],
            )
            .await?;
    } else if layout < known {
        client.execute("UPDATE meta SET layout = $1", &[&known]).await?;
    }
    Ok(id)
}
