//! Errors of the log: every variant names the object, the problem and the next step.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_model::{Digest, StreamId, StreamKind};

use crate::{Epoch, StreamName};

/// System error numbers for too many open files, in this process or in the whole system. `ErrorKind` has no variant for them.
const TOO_MANY_FILES_ERRNOS: [i32; 2] = [23, 24];

/// Error of a log operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An earlier write failed, so the content on disk is unknown until the log is opened again.
    #[error("the log is poisoned by an earlier failed write; restart to recover")]
    Poisoned,

    /// Another process has locked the state directory.
    #[error("state directory {} is in use by {holder}; stop that process or choose another directory", path.display())]
    Locked {
        /// State directory that could not be opened.
        path: PathBuf,
        /// Process that has the lock, as recorded in the `holder` file.
        holder: String,
    },

    /// The state directory is no longer the one that was opened.
    #[error(
        "state directory {} was moved, removed or replaced while this process used it, so nothing more is written there; put it back, or specify \
         its new path, and resume", path.display()
    )]
    Moved {
        /// State directory, as named when it was opened.
        path: PathBuf,
    },

    /// The state directory, or a part of its path, is a file.
    #[error("{} is not a directory; choose another state directory or move the file away", path.display())]
    NotADirectory {
        /// Path that must be a directory.
        path: PathBuf,
    },

    /// The path is a pipe, a device, a socket or a folder instead of a file.
    #[error("{} is not a regular file; move it away, or choose another state directory", path.display())]
    NotAFile {
        /// Path that must be a file.
        path: PathBuf,
    },

    /// A file exceeds its maximum size.
    #[error("{} has {bytes} bytes, more than the maximum of {limit}; restore a copy, move it away, or choose another \
         state directory", path.display())]
    Oversized {
        /// A file of the log's database.
        path: PathBuf,
        /// Size in bytes.
        bytes: u64,
        /// Maximum size in bytes.
        limit: u64,
    },

    /// This process, or the system, has reached its limit of open files.
    #[error("cannot {action} {}: too many files are open ({source}); raise the limit (`ulimit -n`) or stop other programs; nothing is damaged", path.display())]
    TooManyOpenFiles {
        /// File or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// A limit on the size of files of this process was reached.
    #[error("cannot {action} {}: the file size limit of this process is reached ({source}); raise it (`ulimit -f`) and start again; \
         no acknowledged data is lost", path.display())]
    FileSizeLimit {
        /// File or folder.
        path: PathBuf,
        /// A verb: `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// The user is not allowed to read or write the path.
    #[error("no permission to {action} {}; change its owner or mode, or run as the user who owns it", path.display())]
    PermissionDenied {
        /// File or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write` …
        action: &'static str,
    },

    /// The file system is mounted read-only.
    #[error("cannot {action} {}: its file system is read-only; remount it writable or choose another state directory", path.display())]
    ReadOnly {
        /// File or folder.
        path: PathBuf,
        /// A verb: `create`, `write`, `remove` …
        action: &'static str,
    },

    /// The disk is full, or a quota is reached.
    #[error("cannot {action} {}: the disk is full ({source}); free some space and start again; no acknowledged data is lost", path.display())]
    DiskFull {
        /// File or folder.
        path: PathBuf,
        /// A verb: `write`, `sync`, `rename` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// Any other error of the operating system.
    #[error("cannot {action} {}: {source}; check the disk and the system's log", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// The embedded database failed.
    #[error(
        "the log's database cannot {action}: {reason}; restart to recover: the restart quarantines and reports damaged data"
    )]
    Sled {
        /// A verb: `flush`, `read` …
        action: &'static str,
        /// Message of the database, including the system's error if there was one.
        reason: String,
    },

    /// The records of a stream are damaged, and the stream was quarantined.
    #[error(
        "{stream} is damaged: {reason}; its recoverable data is in the state directory's quarantine folder"
    )]
    Damaged {
        /// Quarantined stream; other streams are not affected.
        stream: StreamName,
        /// Description of the damage.
        reason: String,
    },

    /// The log has never contained this stream.
    #[error("{stream} is not in this log; `tidegate ops list` shows the existing operations")]
    UnknownStream {
        /// Requested id.
        stream: StreamName,
    },

    /// The key differs from the key in use.
    #[error(
        "the data in {} is encrypted with the key {wanted}, but the configured key is {found}; provide the right one \
         (TIDEGATE_LOG_KEY, or the file `key` in the state directory); nothing is lost", path.display()
    )]
    WrongKey {
        /// State directory, or the sealed file.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
        /// Fingerprint of the supplied key.
        found: String,
    },

    /// The key is missing, although the data is encrypted with a key.
    #[error(
        "{} is missing, and the data next to it is encrypted with that key, {wanted}; restore it, set TIDEGATE_LOG_KEY, or choose another state \
         directory", path.display()
    )]
    KeyMissing {
        /// Path where the key should be: the file `key` in the state directory.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
    },

    /// The log was opened for reading, without access to the key.
    #[error(
        "{} is encrypted with the key {wanted}, which only the owner of the state directory can read; ask the owner for it and set \
         TIDEGATE_LOG_KEY", path.display()
    )]
    KeyUnreadable {
        /// Sealed file.
        path: PathBuf,
        /// Fingerprint of the key that sealed it.
        wanted: String,
    },

    /// The log was opened read-only.
    #[error("{} was opened read-only, so it cannot be changed; open it for writing", path.display())]
    OpenedReadOnly {
        /// State directory, or a path in it.
        path: PathBuf,
    },

    /// No consistent copy could be taken.
    #[error(
        "{} is being written faster than it can be read; try again in a moment, or run as the user whose process is running there", path.display()
    )]
    NoConsistentCopy {
        /// Folder that could not be copied.
        path: PathBuf,
    },

    /// Other users can read the key.
    #[error("other users can access the key in {} (its mode is {mode:o}); restrict it to its owner: chmod 600", path.display())]
    KeyExposed {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// Permission bits, in the format of `chmod`.
        mode: u32,
    },

    /// The key file does not contain a key.
    #[error("{} does not contain a valid key: {reason}; restore the right one or set TIDEGATE_LOG_KEY", path.display())]
    KeyInvalid {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },

    /// The log has a newer layout than this program supports.
    #[error(
        "the log in {} was written by a newer version (its layout is {found}, and this one supports up to {known}); use that version or a later \
         one, or choose another state directory; nothing was changed", path.display()
    )]
    NewerLayout {
        /// State directory, as named by the caller.
        path: PathBuf,
        /// Layout number that is recorded in the state directory.
        found: u32,
        /// Highest layout that this program knows.
        known: u32,
    },

    /// The log does not state its layout. Previews of the first version wrote such logs.
    #[error(
        "the log in {} was written by another version of tidegate, and this one cannot read it; finish its operations with that version or delete the directory, or choose another state directory; nothing was changed", path.display()
    )]
    UnknownLayout {
        /// State directory, as named by the caller.
        path: PathBuf,
    },

    /// A record has a kind that this program does not know.
    #[error(
        "record kind {kind} was written by a newer version (this one supports up to {highest}); use that version or a later one"
    )]
    NewerRecord {
        /// Number of the kind in the record.
        kind: u16,
        /// Highest kind that this program knows.
        highest: u16,
    },

    /// Data exceeds a maximum size of the log.
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}; split it or store it elsewhere")]
    TooLarge {
        /// Kind of data, such as `blob` or `summary`.
        what: &'static str,
        /// Size in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        limit: usize,
    },

    /// A record could not be encoded, or would not decode to the same value.
    #[error("{what} cannot be encoded: {reason}; this is a bug; please report it")]
    Encoding {
        /// Type of the record, such as `snapshot`.
        what: &'static str,
        /// Error of the codec.
        reason: String,
    },

    /// Events were appended out of order; nothing was written.
    #[error(
        "{stream}: the next event is number {expected}, but number {found} was written; load the stream again"
    )]
    Gap {
        /// Stream of the append.
        stream: StreamName,
        /// Sequence number that the log expects next.
        expected: u64,
        /// Sequence number of the append.
        found: u64,
    },

    /// A process whose epoch has expired tried to append events. Nothing was written.
    #[error(
        "{stream} was taken over by {by} with epoch {epoch}, so this process, with epoch {offered}, can no longer write to it; leave it to that \
         process"
    )]
    Fenced {
        /// Stream that was taken over.
        stream: StreamName,
        /// Epoch of the current writer.
        epoch: Epoch,
        /// Process that took over the stream, by the name that it gave itself.
        by: String,
        /// Epoch of this process, which is lower than the current epoch.
        offered: Epoch,
    },

    /// A stream has a different kind than the request. Nothing was written.
    #[error("{stream} is of kind {found}, not {wanted}; specify a stream of that kind")]
    KindMismatch {
        /// Id of the stream in the request.
        stream: StreamId,
        /// Kind in the request.
        wanted: StreamKind,
        /// Kind that the stream began with, which never changes.
        found: StreamKind,
    },

    /// This program cannot write records of this kind of stream.
    #[error(
        "this version does not know kind {kind} (number {}) of stream {stream}, so it cannot write to the stream; use \
         the version that started the stream, or a later one", kind.number()
    )]
    UnknownKind {
        /// Id of the stream in the append.
        stream: StreamId,
        /// Kind that the stream began with, by the name that the log stores alongside its number.
        kind: StreamKind,
    },

    /// The requested events were compacted after their stream had ended.
    #[error(
        "the events of {stream} were compacted, and only its summary is left; `tidegate sync` and `tidegate serve` keep the events of the newest \
         --history finished operations of an application (default 10): set a larger one to keep more"
    )]
    Compacted {
        /// Stream whose events were requested.
        stream: StreamName,
    },

    /// A blob that must be stored alongside the log is missing.
    #[error(
        "blob {digest} is missing from the state directory; restore it from a backup or start a new operation"
    )]
    BlobMissing {
        /// Name of the blob: a keyed digest of its content.
        digest: Digest,
    },

    /// A blob alongside the log differs from the content that was stored.
    #[error("blob {digest} is damaged: {reason}; restore it from a backup or start a new operation")]
    BlobDamaged {
        /// Name of the blob: a keyed digest of its content.
        digest: Digest,
        /// Description of the damage.
        reason: String,
    },
}

impl LogError {
    /// Adds the kind of the stream to the error.
    pub(crate) fn with_stream_name(mut self, name: &StreamName) -> Self {
        if let Self::Damaged { stream, .. }
        | Self::UnknownStream { stream }
        | Self::Gap { stream, .. }
        | Self::Fenced { stream, .. }
        | Self::Compacted { stream } = &mut self
            && stream.id == name.id
        {
            stream.kind.clone_from(&name.kind);
        }
        self
    }

    /// Maps an operating system error to the variant that gives the matching advice.
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
