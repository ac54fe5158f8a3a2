//! Errors of the log. Every message names the affected object, the problem and the next step.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_model::{Digest, StreamId, StreamKind};

use crate::{Epoch, Shard, StreamName};

/// `ENFILE` and `EMFILE`: too many open files in the system or in this process. `ErrorKind` lacks variants
/// for them.
const TOO_MANY_FILES_ERRNOS: [i32; 2] = [23, 24];

/// Error returned by a log operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An earlier write failed, so the content on disk is unknown until the log is reopened.
    #[error("the log is unusable after an earlier write error; restart the process to recover")]
    Poisoned,

    /// Another process has locked the state directory.
    #[error("state directory {} is in use by {holder}; stop that process or choose another directory", path.display())]
    Locked {
        /// State directory that could not be opened.
        path: PathBuf,
        /// Process that holds the lock, as recorded in the `holder` file.
        holder: String,
    },

    /// The state directory was moved, removed or replaced after it was opened.
    #[error(
        "state directory {} was moved, removed or replaced while this process was using it, so the process stopped writing to it; put the directory back or specify its new path, then resume", path.display()
    )]
    Moved {
        /// Path under which the state directory was opened.
        path: PathBuf,
    },

    /// The state directory, or part of its path, is a file.
    #[error("{} is not a directory; choose another state directory or move the file away", path.display())]
    NotADirectory {
        /// Path that must be a directory.
        path: PathBuf,
    },

    /// The path is a pipe, a device, a socket or a folder.
    #[error("{} is not a regular file; move it away, or choose another state directory", path.display())]
    NotAFile {
        /// Path that must be a file.
        path: PathBuf,
    },

    /// A file exceeds its maximum size.
    #[error("{} is too large: {bytes} bytes (maximum: {limit}); restore a copy, move it away, or choose another state directory", path.display())]
    Oversized {
        /// File of the log's database.
        path: PathBuf,
        /// Size in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },

    /// This process or the system has reached its limit of open files.
    #[error("cannot {action} {}: too many files are open ({source}); raise the limit (`ulimit -n`) or stop other programs; the log is intact", path.display())]
    TooManyOpenFiles {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// Operating system error, with its number.
        source: io::Error,
    },

    /// This process has reached its file size limit.
    #[error(
        "cannot {action} {}: the file size limit of this process has been reached ({source}); raise the \
         limit (`ulimit -f`) and start again (no acknowledged data was lost)",
        path.display()
    )]
    FileSizeLimit {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `write`, `sync` …
        action: &'static str,
        /// Operating system error, with its number.
        source: io::Error,
    },

    /// The user lacks permission to read or write the path.
    #[error("no permission to {action} {}; change its owner or mode, or run as the user who owns it", path.display())]
    PermissionDenied {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `open`, `read`, `write` …
        action: &'static str,
    },

    /// The file system is mounted read-only.
    #[error("cannot {action} {}: its file system is read-only; remount it read-write or choose another state directory", path.display())]
    ReadOnly {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `create`, `write`, `remove` …
        action: &'static str,
    },

    /// The disk is full, or a quota is exhausted.
    #[error(
        "cannot {action} {}: the disk is full ({source}); free some space and start again (no acknowledged \
         data was lost)",
        path.display()
    )]
    DiskFull {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `write`, `sync`, `rename` …
        action: &'static str,
        /// Operating system error, with its number.
        source: io::Error,
    },

    /// Any other operating system error.
    #[error("cannot {action} {}: {source}; check the disk and the system log", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Verb for the failed action: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// Operating system error, with its number.
        source: io::Error,
    },

    /// The embedded database failed.
    #[error(
        "the log's database cannot {action}: {reason}; restart the process to recover (damaged data is quarantined and reported)"
    )]
    Sled {
        /// Verb for the failed action: `flush`, `read` …
        action: &'static str,
        /// Message from the database, including the operating system error if there was one.
        reason: String,
    },

    /// A stream's records are damaged, and the stream is quarantined.
    #[error(
        "{stream} is damaged: {reason}; its recoverable data is in the state directory's quarantine folder"
    )]
    Damaged {
        /// Quarantined stream. Other streams are not affected.
        stream: StreamName,
        /// Description of the damage.
        reason: String,
    },

    /// The log has never contained this stream.
    #[error("{stream} is not in this log; `tidegate ops list` shows the existing operations")]
    UnknownStream {
        /// The requested stream.
        stream: StreamName,
    },

    /// The supplied key differs from the key in use.
    #[error(
        "the data in {} is encrypted with the key {wanted}, but the configured key is {found}; provide the \
         right key (in TIDEGATE_LOG_KEY or in the file `key` of the state directory); no data is lost", path.display()
    )]
    WrongKey {
        /// State directory or sealed file.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
        /// Fingerprint of the supplied key.
        found: String,
    },

    /// The key is missing although the data is encrypted with it.
    #[error(
        "the key file {} is missing, but the data next to it is encrypted with the key {wanted} from that file; \
         restore the file, set TIDEGATE_LOG_KEY, or choose another state directory", path.display()
    )]
    KeyMissing {
        /// Expected path of the key: the file `key` in the state directory.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
    },

    /// A user without access to the key opened the log for reading.
    #[error(
        "{} is encrypted with the key {wanted}, which only the owner of the state directory can read; ask \
         the owner for the key and set TIDEGATE_LOG_KEY", path.display()
    )]
    KeyUnreadable {
        /// Sealed file.
        path: PathBuf,
        /// Fingerprint of the key that sealed the log.
        wanted: String,
    },

    /// The log was opened read-only.
    #[error("{} was opened read-only, so it cannot be changed; open it for writing", path.display())]
    OpenedReadOnly {
        /// State directory, or a path in it.
        path: PathBuf,
    },

    /// No consistent copy could be made.
    #[error(
        "{} is changing too fast to make a consistent copy; try again in a moment, or run the command as the same user as the process that is changing it", path.display()
    )]
    NoConsistentCopy {
        /// Folder that could not be copied.
        path: PathBuf,
    },

    /// Other users can read the key.
    #[error("other users can access the key in {} (mode {mode:o}); restrict access to the owner with `chmod 600`", path.display())]
    KeyExposed {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// Permission bits of the file, as in `chmod`.
        mode: u32,
    },

    /// The key file doesn't contain a valid key.
    #[error("{} does not contain a valid key: {reason}; restore the right key or set TIDEGATE_LOG_KEY", path.display())]
    KeyInvalid {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },

    /// The log has a newer layout than this program supports.
    #[error(
        "the log in {} was written by a newer version of Tidegate (layout {found}; this version supports \
         layouts up to {known}); use that version or later, or choose another state directory; nothing was \
         changed", path.display()
    )]
    NewerLayout {
        /// State directory, as passed by the caller.
        path: PathBuf,
        /// Layout number recorded in the state directory.
        found: u32,
        /// Highest layout number that this program knows.
        known: u32,
    },

    /// The log doesn't record its layout. It comes from a preview version before the first release.
    #[error(
        "the log in {} was written by another version of Tidegate, and this version cannot read it; finish \
         its operations with that version or delete the directory, or choose another state directory; \
         nothing was changed", path.display()
    )]
    UnknownLayout {
        /// State directory, as passed by the caller.
        path: PathBuf,
    },

    /// The log was moved to a database, which now contains its operations.
    #[error(
        "the operation log in {} was moved to {to}; use `tidegate serve --log` with that database (to use this \
         directory again, remove the folder {mark} from it, but only if nothing has used the database since)",
        path.display()
    )]
    LogMoved {
        /// State directory.
        path: PathBuf,
        /// Hosts and database that the log was moved to.
        to: String,
        /// Folder that marks the log as moved, relative to the state directory.
        mark: &'static str,
    },

    /// The log is a copy that was interrupted.
    #[error(
        "the operation log in {location} is an incomplete copy of the log in {source_log}; repeat the `tidegate log copy` \
         command to complete it"
    )]
    IncompleteCopy {
        /// State directory, or hosts and database, of the copy.
        location: String,
        /// State directory, or hosts and database, of the log that was being copied.
        source_log: String,
    },

    /// Another process uses the database, so that its log cannot be copied.
    #[error("{replica} is using the operation log in {target}; stop it and try again")]
    ReplicaJoined {
        /// Hosts and database.
        target: String,
        /// Name of the other process.
        replica: String,
    },

    /// This program doesn't know the kind of a record.
    #[error(
        "a newer version of Tidegate wrote a record of kind {kind} (this version supports kinds up to \
         {highest}); use that version or later"
    )]
    NewerRecord {
        /// Kind number in the record.
        kind: u16,
        /// Highest kind number that this program knows.
        highest: u16,
    },

    /// Data exceeds a size limit of the log.
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}; split it or store it elsewhere")]
    TooLarge {
        /// Type of data, such as `blob` or `summary`.
        what: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        limit: usize,
    },

    /// A record could not be encoded, or would not decode to the same value.
    #[error("{what} cannot be encoded: {reason}; please report this bug")]
    Encoding {
        /// Type of the record, such as `snapshot`.
        what: &'static str,
        /// Codec error.
        reason: String,
    },

    /// Events were appended out of order. Nothing was written.
    #[error(
        "{stream}: cannot append event {found}: the next event must be number {expected}; reload the stream \
         and try again"
    )]
    Gap {
        /// Stream of the append.
        stream: StreamName,
        /// Sequence number that the log expects next.
        expected: u64,
        /// Sequence number in the append.
        found: u64,
    },

    /// A process with an expired epoch tried to append events. Nothing was written.
    #[error(
        "{stream} was taken over by {by} (epoch {epoch}), so this process (epoch {offered}) can no longer \
         write to it; let the other process continue"
    )]
    Fenced {
        /// Stream now owned by the other process.
        stream: StreamName,
        /// Epoch of the current writer.
        epoch: Epoch,
        /// Self-reported name of the process that took over the stream.
        by: String,
        /// Epoch of this process, lower than the current epoch.
        offered: Epoch,
    },

    /// A stream's kind differs from the kind in the request. Nothing was written.
    #[error("{stream} is of kind {found}, not {wanted}; specify a stream of kind {wanted}")]
    KindMismatch {
        /// ID of the stream in the request.
        stream: StreamId,
        /// Kind in the request.
        wanted: StreamKind,
        /// Kind that the stream was created with. Never changes.
        found: StreamKind,
    },

    /// This program can't write records of this stream kind.
    #[error(
        "this version of Tidegate does not know the kind {kind} (number {}) of stream {stream}, so it \
         cannot write to the stream; use the version that started the stream, or later", kind.number()
    )]
    UnknownKind {
        /// ID of the stream in the append.
        stream: StreamId,
        /// Kind that the stream was created with, including the name that the log stores with the kind's
        /// number.
        kind: StreamKind,
    },

    /// A compaction removed the requested events after the stream had finished.
    #[error(
        "the events of {stream} were compacted and only its summary is left; to keep the events of more \
         finished operations of each application, set a higher --history (default 10) for `tidegate sync` \
         and `tidegate serve`"
    )]
    Compacted {
        /// Stream with the requested events.
        stream: StreamName,
    },

    /// A blob is missing.
    #[error(
        "blob {digest} is missing from the state directory; restore it from a backup or start a new operation"
    )]
    BlobMissing {
        /// Name of the blob: a keyed digest of its content.
        digest: Digest,
    },

    /// A blob differs from the content that was stored.
    #[error("blob {digest} is damaged: {reason}; restore it from a backup or start a new operation")]
    BlobDamaged {
        /// Name of the blob: a keyed digest of its content.
        digest: Digest,
        /// Description of the damage.
        reason: String,
    },

    /// The URL of the log's database is invalid.
    #[error("the URL of the operation log is invalid: {reason}; use postgres://USER@HOST/DATABASE")]
    DatabaseUrl {
        /// Description of the problem, without the password.
        reason: String,
    },

    /// The database doesn't respond, or cannot serve requests at the moment.
    #[error(
        "{target} is unavailable: {reason}; check the database and the network (no acknowledged data was lost)"
    )]
    Unavailable {
        /// Hosts and database.
        target: String,
        /// Error from the network or the server.
        reason: String,
    },

    /// The database rejected the user, the password or the database name.
    #[error("{target} rejected the connection: {reason}; check the user, the password and the database name")]
    DatabaseRefused {
        /// Hosts and database.
        target: String,
        /// Message from the server.
        reason: String,
    },

    /// No trusted TLS connection could be made.
    #[error(
        "cannot establish a trusted TLS connection to {target}: {reason}; check the server's certificate, or \
         specify its certificate authority with sslrootcert=FILE in the URL"
    )]
    DatabaseTls {
        /// Hosts and database.
        target: String,
        /// Error from TLS.
        reason: String,
    },

    /// The server is too old.
    #[error("{target} runs PostgreSQL {}; version 14 or later is required", version / 10_000)]
    DatabaseVersion {
        /// Hosts and database.
        target: String,
        /// Version number of the server, such as 130004.
        version: i32,
    },

    /// The server is a standby, or allows only reads.
    #[error(
        "{target} is read-only, probably because it is a standby; use the address of the primary, or list all hosts in the URL"
    )]
    DatabaseReadOnly {
        /// Hosts and database.
        target: String,
    },

    /// The log is encrypted with another key.
    #[error(
        "the operation log in {target} is encrypted with the key {wanted}, but the configured key is {found}; set TIDEGATE_LOG_KEY to the right key"
    )]
    DatabaseKey {
        /// Hosts and database.
        target: String,
        /// Fingerprint of the key in use.
        wanted: String,
        /// Fingerprint of the supplied key.
        found: String,
    },

    /// The tables have a newer layout than this program supports.
    #[error(
        "the operation log in {target} has layout {found}, but this version supports layouts up to {known}; use \
         the version that migrated it, or later; nothing was changed"
    )]
    NewerSchema {
        /// Hosts and database.
        target: String,
        /// Layout number in the database.
        found: i32,
        /// Highest layout number that this program knows.
        known: i32,
    },

    /// The tables have an older layout than this command requires.
    #[error(
        "the operation log in {target} has layout {found}, but this command requires layout {wanted}; upgrade the \
         services that use it, which migrates the log"
    )]
    OlderSchema {
        /// Hosts and database.
        target: String,
        /// Layout number in the database.
        found: i32,
        /// Lowest layout number that the command supports.
        wanted: i32,
    },

    /// The database rejected a statement.
    #[error(
        "the operation log's database cannot {action}: {reason}; check the permissions in the database, and the \
         log of the database server"
    )]
    Database {
        /// Verb for the failed action: `write`, `read a stream` …
        action: &'static str,
        /// Message from the server.
        reason: String,
    },

    /// A stream's rows don't match its head.
    #[error(
        "{stream} is damaged in the database: {reason}; restore the database from a backup (other operations are not affected)"
    )]
    DamagedRows {
        /// Damaged stream.
        stream: StreamName,
        /// Description of the damage.
        reason: String,
    },

    /// The database no longer contains acknowledged events, probably after a failover to an asynchronous standby.
    #[error(
        "the operation log's database lost acknowledged events of {streams}, probably in a failover to a standby \
         without synchronous replication; restart the process to continue from the remaining events"
    )]
    LostEnd {
        /// IDs of the affected streams.
        streams: String,
    },

    /// This process owns no part of the log. It may be a standby.
    #[error("this process owns no part of the operation log, so it cannot write to it")]
    NotOwner,

    /// Another replica owns the part of the log with this stream.
    #[error(
        "{stream} is in a part of the operation log that another replica owns; send the request to that replica"
    )]
    OtherReplica {
        /// Stream of the other replica.
        stream: StreamName,
        /// Shard of the stream.
        shard: Shard,
    },

    /// Another process has declared this one dead and taken over.
    #[error(
        "{by} has taken over the operation log, because this process did not respond; restart the process to rejoin"
    )]
    Evicted {
        /// Name of the process that took over.
        by: String,
    },
}

impl LogError {
    /// Returns true if the database of the log cannot be used at the moment, for example during a failover.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::DatabaseReadOnly { .. }
                | Self::DatabaseRefused { .. }
                | Self::DatabaseTls { .. }
        )
    }

    /// Adds the stream's kind to the error.
    pub(crate) fn with_stream_name(mut self, name: &StreamName) -> Self {
        if let Self::Damaged { stream, .. }
        | Self::DamagedRows { stream, .. }
        | Self::UnknownStream { stream }
        | Self::Gap { stream, .. }
        | Self::Fenced { stream, .. }
        | Self::OtherReplica { stream, .. }
        | Self::Compacted { stream } = &mut self
            && stream.id == name.id
        {
            stream.kind.clone_from(&name.kind);
        }
        self
    }

    /// Maps an operating system error to the variant with matching advice.
    pub(crate) fn from_io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if source.raw_os_error().is_some_and(|code| TOO_MANY_FILES_ERRNOS.contains(&code)) {
            return Self::TooManyOpenFiles { path, action, source };
        }
        match source.kind() {
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path, action },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, action },
            io::ErrorKind::FileTooLarge => Self::FileSizeLimit { path, action, source },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, action, source }
            }
            _ => Self::Io { path, action, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_mapped_to_the_variant_with_the_right_advice() {
        let sort = |kind: io::ErrorKind| LogError::from_io(Path::new("/state"), "write", kind.into());
        assert!(matches!(sort(io::ErrorKind::StorageFull), LogError::DiskFull { .. }));
        assert!(matches!(sort(io::ErrorKind::QuotaExceeded), LogError::DiskFull { .. }));
        assert!(matches!(sort(io::ErrorKind::FileTooLarge), LogError::FileSizeLimit { .. }));
        let no_handles = LogError::from_io(Path::new("/state"), "open", io::Error::from_raw_os_error(24));
        assert!(matches!(no_handles, LogError::TooManyOpenFiles { .. }));
        assert!(matches!(sort(io::ErrorKind::ReadOnlyFilesystem), LogError::ReadOnly { .. }));
        assert!(matches!(sort(io::ErrorKind::PermissionDenied), LogError::PermissionDenied { .. }));
        assert!(matches!(sort(io::ErrorKind::NotADirectory), LogError::NotADirectory { .. }));
        assert!(matches!(sort(io::ErrorKind::Interrupted), LogError::Io { .. }));
        assert!(sort(io::ErrorKind::StorageFull).to_string().contains("/state"));
    }
}
