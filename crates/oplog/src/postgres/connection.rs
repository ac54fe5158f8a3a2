//! Connections to PostgreSQL: options, TLS, and time limits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use crate::LogError;

/// Time for connecting to one host, including TLS and authentication. A host that accepts connections and never
/// answers must not hide the next one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which an unanswered call counts as failed, and its connection is closed.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without an acknowledgement after which the system closes a connection.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Schema of the tables, unless the URL contains another.
const DEFAULT_SCHEMA: &str = "tidegate";
/// Oldest supported server version, as in `server_version_num`.
const MIN_VERSION: i32 = 140_000;

/// Settings of a session. The server must not cancel an append that waits for a synchronous standby, because
/// the append may then be durable although the client receives an error. A commit must be on disk, and on the
/// synchronous standbys if there are any, even if the database is configured otherwise.
const SESSION_SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = 0; \
     SET idle_in_transaction_session_timeout = '3s'; SET client_min_messages = warning; \
     SET default_transaction_isolation = 'read committed'; \
     SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// Location of a log in PostgreSQL, and the TLS settings for it.
#[derive(Clone)]
pub struct PostgresTarget {
    /// Connection settings for each host.
    hosts: Arc<[Config]>,
    /// Index of the host that accepted the last connection.
    last_host: Arc<AtomicUsize>,
    schema: String,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// Hosts and database for messages, without user and password.
    display: String,
}

impl std::fmt::Debug for PostgresTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTarget").field("display", &self.display).finish_non_exhaustive()
    }
}

impl std::fmt::Display for PostgresTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.display)
    }
}

/// TLS mode in a URL. Weaker modes of libpq are rejected, because they don't check the server's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsMode {
    VerifyFull,
    Disable,
}

impl PostgresTarget {
    /// Parses a URL such as `postgres://tidegate@db-1,db-2/tidegate`. `password` takes precedence over a
    /// password in the URL. Calls `tls` for the TLS configuration, with the path in `sslrootcert` if there is
    /// one, unless the URL disables TLS.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid. The error never quotes the password.
    pub fn parse(
        url: &str,
        password: Option<&str>,
        tls: impl FnOnce(Option<&str>) -> Result<Arc<rustls::ClientConfig>, String>,
    ) -> Result<Self, LogError> {
        let invalid = |reason: String| LogError::DatabaseUrl { reason };
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut schema) = (TlsMode::VerifyFull, None, DEFAULT_SCHEMA.to_owned());
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "verify-full")) => mode = TlsMode::VerifyFull,
                Some(("sslmode", "disable")) => mode = TlsMode::Disable,
                Some(("sslmode", other)) => {
                    return Err(invalid(format!(
                        "sslmode={other} is not supported, because it does not verify the server; use \
                         sslmode=verify-full, or sslmode=disable on a trusted network"
                    )));
                }
                Some(("sslrootcert", path)) => roots = Some(path),
                Some(("schema", name)) => schema = valid_schema(name).map_err(invalid)?,
                _ => rest.push(pair),
            }
        }
        let base = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config =
            base.parse().map_err(|error: tokio_postgres::Error| invalid(describe_error(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it does not contain a host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(invalid("it does not contain a user".to_owned()));
        }
        if let Some(password) = password {
            config.password(password);
        }
        let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
        let tls = match mode {
            TlsMode::VerifyFull if !is_local => {
                config.ssl_mode(SslMode::Require);
                Some(tls(roots).map_err(invalid)?)
            }
            _ => {
                config.ssl_mode(SslMode::Disable);
                None
            }
        };
        let display = display_target(&config, &schema);
        let hosts = split_hosts(&config).into();
        Ok(Self { hosts, last_host: Arc::default(), schema, tls, display })
    }

    /// Connects to the first host that accepts writes, starting with the last one that did, and prepares a session.
    /// Must be called in the log's runtime, which also runs the connection.
    pub(super) async fn connect(&self, incarnation: Uuid) -> Result<Client, LogError> {
        let first = self.last_host.load(Ordering::Relaxed);
        let mut failure = None;
        for offset in 0..self.hosts.len() {
            let index = (first + offset) % self.hosts.len();
            let Some(config) = self.hosts.get(index) else { continue };
            let session = tokio::time::timeout(CONNECT_TIMEOUT, self.open_session(config, incarnation)).await;
            match session.unwrap_or_else(|_| Err(self.timeout_error())) {
                Ok(client) => {
                    self.last_host.store(index, Ordering::Relaxed);
                    return Ok(client);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| self.timeout_error()))
    }

    async fn open_session(&self, config: &Config, incarnation: Uuid) -> Result<Client, LogError> {
        let mut config = config.clone();
        config.application_name(application_name(incarnation));
        let client = match &self.tls {
            None => {
                let (client, connection) =
                    config.connect(NoTls).await.map_err(|error| self.connect_error(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                client
            }
            Some(tls) => {
                let tls = MakeRustlsConnect::new(rustls::ClientConfig::clone(tls));
                let (client, connection) =
                    config.connect(tls).await.map_err(|error| self.connect_error(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                client
            }
        };
        let settings = format!("{SESSION_SETTINGS}; SET search_path = {}", self.schema);
        let (version, is_read_only) = within("open a session", async {
            client.batch_execute(&settings).await?;
            let row = client
                .query_typed_one(
                    "SELECT current_setting('server_version_num')::int, pg_is_in_recovery() OR \
                     current_setting('transaction_read_only') = 'on'",
                    &[],
                )
                .await?;
            Ok((row.try_get::<_, i32>(0)?, row.try_get::<_, bool>(1)?))
        })
        .await?;
        if version < MIN_VERSION {
            return Err(LogError::DatabaseVersion { target: self.display.clone(), version });
        }
        if is_read_only {
            return Err(LogError::DatabaseReadOnly { target: self.display.clone() });
        }
        Ok(client)
    }

    fn timeout_error(&self) -> LogError {
        let reason = format!("it did not accept a connection within {} s", CONNECT_TIMEOUT.as_secs());
        LogError::Unavailable { target: self.display.clone(), reason }
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    fn connect_error(&self, error: &tokio_postgres::Error) -> LogError {
        let (target, reason) = (self.display.clone(), describe_error(error));
        match error.code() {
            Some(code)
                if *code == SqlState::INVALID_PASSWORD
                    || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
                    || *code == SqlState::INVALID_CATALOG_NAME
                    || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
            {
                LogError::DatabaseRefused { target, reason }
            }
            _ if is_tls_error(error) => LogError::DatabaseTls { target, reason },
            _ => LogError::Unavailable { target, reason },
        }
    }
}

/// Parameter of a statement, with its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Returns the name of a replica's sessions. Another replica can end them by this name.
pub(super) fn application_name(incarnation: Uuid) -> String {
    format!("tidegate {incarnation}")
}

/// Runs a call with a time limit.
pub(super) async fn within<T>(
    action: &'static str,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, LogError> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(result) => result.map_err(|error| call_error(action, &error)),
        Err(_) => Err(LogError::Unavailable {
            target: "the database of the operation log".to_owned(),
            reason: format!("it did not {action} within {} s", CALL_TIMEOUT.as_secs()),
        }),
    }
}

/// Maps the error of a call: to [`LogError::Database`] if the server rejected the call, and otherwise to
/// [`LogError::Unavailable`].
pub(super) fn call_error(action: &'static str, error: &tokio_postgres::Error) -> LogError {
    let reason = describe_error(error);
    let is_temporary = match error.code() {
        None => true,
        // Connection and operator errors: the server is shutting down, starting up or overloaded.
        Some(code) => {
            let class = code.code().get(..2).unwrap_or_default();
            matches!(class, "08" | "57" | "53" | "58" | "40")
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::LOCK_NOT_AVAILABLE
                || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        }
    };
    if is_temporary {
        LogError::Unavailable { target: "the database of the operation log".to_owned(), reason }
    } else {
        LogError::Database { action, reason }
    }
}

/// Describes an error with its cause. `tokio_postgres::Error` itself displays only its category.
fn describe_error(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    if let Some(db) = error.as_db_error() {
        let detail = db.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        return format!("{}{detail}", db.message());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Returns true if the certificate or the protocol was rejected. A connection that was closed during the handshake
/// is not such an error, because the server may be restarting.
fn is_tls_error(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    let io = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    match io {
        Some(io) => io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()),
        None => error.to_string().contains("TLS") && error.code().is_none(),
    }
}

/// Splits settings with several hosts into settings with one host each.
fn split_hosts(config: &Config) -> Vec<Config> {
    let ports = config.get_ports();
    let split = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let mut one = Config::new();
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        one.port(ports.get(index).or(ports.first()).copied().unwrap_or(5432));
        if let Some(user) = config.get_user() {
            one.user(user);
        }
        if let Some(password) = config.get_password() {
            one.password(password);
        }
        if let Some(name) = config.get_dbname() {
            one.dbname(name);
        }
        if let Some(options) = config.get_options() {
            one.options(options);
        }
        one.ssl_mode(config.get_ssl_mode())
            .channel_binding(config.get_channel_binding())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(TCP_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE);
        one
    });
    split.collect()
}

/// Checks the name of a schema. Restricted to plain identifiers, because it becomes part of statements.
fn valid_schema(name: &str) -> Result<String, String> {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain {
        Ok(name.to_owned())
    } else {
        Err(format!("`{name}` is not a valid schema; use lowercase letters, digits and underscores"))
    }
}

fn display_target(config: &Config, schema: &str) -> String {
    let port = |index: usize| match config.get_ports() {
        [] => 5432,
        [only] => *only,
        many => many.get(index).copied().unwrap_or(5432),
    };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    let schema = if schema == DEFAULT_SCHEMA { String::new() } else { format!(" (schema {schema})") };
    format!("{}/{database}{schema}", hosts.join(","))
}

/// Returns true if the database has standbys, and commits don't wait for any of them.
pub(super) async fn has_only_asynchronous_standbys(client: &Client) -> Result<bool, LogError> {
    within("read the replication settings", async {
        let row = client
            .query_typed_one(
                "SELECT current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT FROM pg_stat_replication)",
                &[],
            )
            .await?;
        row.try_get(0)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresTarget, LogError> {
        PostgresTarget::parse(url, Some("s3cret"), |_| Err("no roots in this test".to_owned()))
    }

    #[test]
    fn a_url_without_verified_tls_is_refused() {
        for (url, reason) in [
            ("postgres://u@db/tidegate?sslmode=require", "sslmode=require is not supported"),
            ("postgres://u@db/tidegate?sslmode=prefer", "sslmode=prefer is not supported"),
            ("postgres://u@db/tidegate", "no roots in this test"),
            ("postgres://u@db/tidegate?sslmode=disable&schema=a;drop", "is not a valid schema"),
            ("postgres:///tidegate?sslmode=disable", "host"),
            ("postgres://db/tidegate?sslmode=disable", "user"),
            ("mysql://u@db/tidegate?sslmode=disable", "invalid"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_target_is_displayed_without_user_and_password() {
        for (url, display) in [
            ("postgres://u:secret@a:5433,b:5434/log?sslmode=disable", "a:5433,b:5434/log"),
            ("postgres://u:secret@a,b/log?sslmode=disable&connect_timeout=2", "a:5432,b:5432/log"),
            ("postgres://u@a?sslmode=disable&schema=blue", "a:5432/u (schema blue)"),
        ] {
            let target = parse(url).unwrap();
            assert_eq!(target.to_string(), display);
            assert!(!format!("{target:?}").contains("secret"));
        }
    }
}
