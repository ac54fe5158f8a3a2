//! Arguments for `log`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::values;

/// Beginnings of the URL of a database.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Copies the operation log.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// Subcommands of `log`.
#[derive(Clone, Debug, Subcommand)]
pub enum LogCommand {
    /// Copy the operation log from a state directory to PostgreSQL, or back
    ///
    /// The copy includes all operations, their manifests, and stored plans. Every process that uses one of the logs
    /// must have stopped. The command reads everything back and compares it. After a copy to a database, the log in
    /// the directory can no longer be used; use `tidegate serve --log` instead. An interrupted copy can be repeated.
    #[command(after_help = "\
One of --from and --to is a state directory, and the other is a database. The target must be empty, \
or contain an earlier result of the same copy. The target uses the same key as the source: the key \
in TIDEGATE_LOG_KEY or, if that is not set, in the file `key` of the directory.

Examples:
  tidegate log copy --from /var/lib/tidegate/state --to postgres://tidegate@db/tidegate --dry-run
  tidegate log copy --from /var/lib/tidegate/state --to postgres://tidegate@db/tidegate --log-password password.txt
  tidegate log copy --from postgres://tidegate@db/tidegate --to restored")]
    Copy(CopyLogArgs),
}

/// Source and target of a copy.
#[derive(Clone, Debug, Args)]
pub struct CopyLogArgs {
    /// State directory or PostgreSQL database to copy the log from
    #[arg(long, value_name = "DIR|URL", value_parser = location_parser())]
    pub from: LogLocation,
    /// State directory or PostgreSQL database to copy the log to; a directory is created if it does not exist
    #[arg(long, value_name = "DIR|URL", value_parser = location_parser())]
    pub to: LogLocation,
    /// File with the password for the database
    #[arg(long, value_name = "FILE", value_parser = values::path_parser())]
    pub log_password: Option<PathBuf>,
    /// Check both logs and print the amount of content, without writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Copy everything except for damaged operations. Without this option, nothing is copied if there are damaged
    /// operations
    #[arg(long)]
    pub skip_damaged: bool,
}

/// Location of an operation log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLocation {
    /// State directory.
    Directory(PathBuf),
    /// URL of a PostgreSQL database.
    Database(String),
}

impl From<OsString> for LogLocation {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some(url) if SCHEMES.iter().any(|scheme| url.starts_with(scheme)) => {
                Self::Database(url.to_owned())
            }
            _ => Self::Directory(text.into()),
        }
    }
}

fn location_parser() -> impl TypedValueParser<Value = LogLocation> {
    OsStringValueParser::new().map(LogLocation::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_postgres_are_databases() {
        for (text, is_database) in [
            ("postgres://tidegate@db/tidegate", true),
            ("postgresql://tidegate@db/tidegate", true),
            ("state", false),
            ("./postgres:", false),
            ("/var/lib/tidegate", false),
        ] {
            let location = LogLocation::from(OsString::from(text));
            assert_eq!(matches!(location, LogLocation::Database(_)), is_database, "{text}");
        }
    }
}
