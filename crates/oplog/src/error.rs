//! Why the log could not do what was asked: every variant names the object, what is wrong, and the next step.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_model::{Digest, StreamId, StreamKind};

use crate::{Epoch, StreamName};

/// Too many open files, in this process or in all: the system's numbers, which have no kind.
const NO_HANDLES: [i32; 2] = [23, 24];

/// Why the log could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An earlier write failed, so what is on the disk is not known until the log is opened again.
    #[error("the log is poisoned by an earlier failed write; restart to recover")]
    Poisoned,

    /// Another process holds the state directory.
    #[error("state directory {} is in use by {holder}; stop that process or choose another directory", path.display())]
    Locked {
        /// The state directory that was to be opened.
        path: PathBuf,
        /// Who holds it, as written in its `holder` file.
        holder: String,
    },

    /// The state directory is not the one that was opened any more.
    #[error(
        "state directory {} was moved, removed or replaced while this process worked in it, so nothing more is written there; put it back, or name where it is now, and resume", path.display()
    )]
    Moved {
        /// The state directory, as it was named when it was opened.
        path: PathBuf,
    },

    /// The state directory, or a part of its path, is a file.
    #[error("{} is not a directory; choose another state directory or move the file away", path.display())]
    NotADirectory {
        /// What should have been a directory.
        path: PathBuf,
    },

    /// A pipe, a device, a socket or a folder in the place of a file.
    #[error("{} is not a regular file, and is in the place of one; move it away, or choose another state directory", path.display())]
    NotAFile {
        /// What should have been a file.
        path: PathBuf,
    },

    /// A file is larger than it can be.
    #[error("{} has {bytes} bytes, and at most {limit} can be; put back a copy, move it away, or choose another state directory", path.display())]
    Oversized {
        /// A file of the log's database.
        path: PathBuf,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },

    /// This process, or the system, has as many files open as it may.
    #[error("cannot {action} {}: too many files are open ({source}); allow more (`ulimit -n`) or end other programs, nothing is damaged", path.display())]
    TooManyOpen {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// Files of this process may not grow beyond a limit.
    #[error("cannot {action} {}: the limit of this process for the size of a file is reached ({source}); raise it (`ulimit -f`) and start again, nothing acknowledged is lost", path.display())]
    SizeLimit {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// This user may not read or write there.
    #[error("no permission to {action} {}; change its owner or mode, or run as the user who owns it", path.display())]
    PermissionDenied {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write` …
        action: &'static str,
    },

    /// The file system is mounted read-only.
    #[error("cannot {action} {}: its file system is read-only; remount it writable or choose another state directory", path.display())]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `create`, `write`, `remove` …
        action: &'static str,
    },

    /// No space is left, or a quota is reached.
    #[error("cannot {action} {}: the disk is full ({source}); free some space and start again, nothing acknowledged is lost", path.display())]
    DiskFull {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `write`, `sync`, `rename` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// Any other refusal of the operating system.
    #[error("cannot {action} {}: {source}; check the disk and the system's log", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// A verb: `open`, `read`, `write`, `sync` …
        action: &'static str,
        /// The system's error, with its number.
        source: io::Error,
    },

    /// The embedded database refused.
    #[error(
        "the log's database cannot {action}: {reason}; restart to recover, damage is then set aside and reported"
    )]
    Sled {
        /// A verb: `flush`, `read` …
        action: &'static str,
        /// The database's words, with the error of the system in them, if there was one.
        reason: String,
    },

    /// A stream's records are damaged and it was set aside.
    #[error(
        "{stream} is damaged: {reason}; what could be kept of it is in the state directory's quarantine folder"
    )]
    Damaged {
        /// The stream that was set aside; others are not concerned.
        stream: StreamName,
        /// What is wrong with it.
        reason: String,
    },

    /// No such stream was ever logged here.
    #[error("{stream} is not in this log; `ops list` shows those that are")]
    UnknownStream {
        /// The id that was asked for.
        stream: StreamName,
    },

    /// The key is not the one that was used here.
    #[error(
        "what is kept in {} was sealed with the key {wanted}, and the key given is {found}; give the right one (TIDEGATE_LOG_KEY, or the file `key` in the state directory), nothing is lost", path.display()
    )]
    WrongKey {
        /// The state directory, or the file that was sealed.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
        /// Fingerprint of the key that was given.
        found: String,
    },

    /// There is no key, and there was one.
    #[error(
        "{} is gone, and what is kept beside it was sealed with that key, {wanted}; put it back or give it as TIDEGATE_LOG_KEY, or choose another state directory", path.display()
    )]
    KeyMissing {
        /// Where it should be: the file `key` in the state directory.
        path: PathBuf,
        /// Fingerprint of the key in use.
        wanted: String,
    },

    /// Somebody who only reads has no key.
    #[error(
        "{} is sealed with the key {wanted}, which only the owner of the state directory may read; ask them for it and give it as TIDEGATE_LOG_KEY", path.display()
    )]
    KeyUnreadable {
        /// The file that was sealed.
        path: PathBuf,
        /// Fingerprint of the key it was sealed with.
        wanted: String,
    },

    /// The log was opened to read.
    #[error("{} was opened to be read only; nothing is written to it", path.display())]
    OpenedToRead {
        /// The state directory, or what is in it.
        path: PathBuf,
    },

    /// No copy could be taken.
    #[error(
        "{} is being written faster than it can be read; try again in a moment, or ask as the user whose process is at work there", path.display()
    )]
    Restless {
        /// What was to be copied.
        path: PathBuf,
    },

    /// Others may read the key.
    #[error("others than its owner may use the key in {} (its mode is {mode:o}); allow its owner only: chmod 600", path.display())]
    KeyExposed {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// Its permission bits, as `chmod` takes them.
        mode: u32,
    },

    /// The key file holds no key.
    #[error("{} holds no key: {reason}; put the right one back or give it as TIDEGATE_LOG_KEY", path.display())]
    KeyUnusable {
        /// The file `key` in the state directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The log is of a later layout.
    #[error(
        "the log in {} was written by a newer program (its layout is {found}, and this one knows up to {known}); use that program or a later one, or choose another state directory; nothing was changed", path.display()
    )]
    NewerLayout {
        /// The state directory, as it was named.
        path: PathBuf,
        /// Number that is written down in the state directory.
        found: u32,
        /// The highest layout this program knows.
        known: u32,
    },

    /// A record of a kind that this program does not know.
    #[error(
        "record kind {kind} was written by a newer program (this one knows up to {highest}); use that program's version or later"
    )]
    NewerRecord {
        /// Number of the kind, as it stands in the record.
        kind: u16,
        /// The highest kind this program knows.
        highest: u16,
    },

    /// Something is larger than the log takes.
    #[error("{what} of {bytes} bytes is over the limit of {limit}; split it or keep it elsewhere")]
    TooLarge {
        /// `blob`, `summary` or what else was to be written.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },

    /// A record could not be written as bytes, or would not be read back as what it was.
    #[error("{what} cannot be encoded: {reason}; this is a bug in the type that is logged")]
    Encoding {
        /// What sort of record it was to be: `fact`, `snapshot` …
        what: &'static str,
        /// What the codec says of it.
        reason: String,
    },

    /// Facts were offered out of order; nothing was written.
    #[error("{stream}: the next fact is number {expected}, but number {found} was offered; load it again")]
    Gap {
        /// The stream that they were offered for.
        stream: StreamName,
        /// The sequence number the log expects next.
        expected: u64,
        /// The one it was given.
        found: u64,
    },

    /// Facts were offered by a process whose time with the stream is over; nothing was written.
    #[error(
        "{stream} was taken over by {by} with epoch {epoch}, and this process, with epoch {offered}, may not write to it any more; leave it to that process"
    )]
    Fenced {
        /// The stream that was taken over.
        stream: StreamName,
        /// The epoch of whoever writes to it now.
        epoch: Epoch,
        /// The process that took it over, as it named itself.
        by: String,
        /// The epoch of this process, which is the lower one.
        offered: Epoch,
    },

    /// A stream is not what it was asked, or offered, as; nothing was written.
    #[error("{stream} is {found}, and not {wanted}; name one that is")]
    OtherKind {
        /// Id of the stream that was asked for, or offered.
        stream: StreamId,
        /// What it was taken for.
        wanted: StreamKind,
        /// The kind it was begun with, which never changes.
        found: StreamKind,
    },

    /// This program cannot write records of a kind of stream.
    #[error(
        "this program does not know what a {kind} is (kind {} of stream {stream}), and writes nothing to it; use the program that began it, or a later one", kind.number()
    )]
    UnknownKind {
        /// Id of the stream that was offered something.
        stream: StreamId,
        /// The kind it was begun with, under the name that the log keeps beside its number.
        kind: StreamKind,
    },

    /// The facts asked for are gone: what they are about is over, and was compacted.
    #[error(
        "the facts of {stream} were compacted, and only its summary is kept; as many of the newest finished operations of an application keep everything as --history says, ten if it is not said: give a larger one where more are to be kept"
    )]
    Compacted {
        /// The stream whose facts were asked for.
        stream: StreamName,
    },

    /// Content that should be beside the log is not there.
    #[error(
        "blob {digest} is missing from the state directory; restore it from a backup or start the operation anew"
    )]
    BlobMissing {
        /// Its name: a keyed digest of the content.
        digest: Digest,
    },

    /// Content beside the log is not what was put there.
    #[error("blob {digest} is damaged: {reason}; restore it from a backup or start the operation anew")]
    BlobDamaged {
        /// Its name: a keyed digest of the content.
        digest: Digest,
        /// Why its bytes cannot be what was put there.
        reason: String,
    },
}

impl LogError {
    /// The same, saying what the stream is that it is about.
    pub(crate) fn about(mut self, name: &StreamName) -> Self {
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

    /// Sorts an error of the operating system into the variant that tells a person what to do.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if source.raw_os_error().is_some_and(|code| NO_HANDLES.contains(&code)) {
            return Self::TooManyOpen { path, action, source };
        }
        match source.kind() {
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path, action },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, action },
            io::ErrorKind::FileTooLarge => Self::SizeLimit { path, action, source },
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
    fn system_errors_are_sorted_by_what_a_person_can_do() {
        let sort = |kind: io::ErrorKind| LogError::io(Path::new("/state"), "write", kind.into());
        assert!(matches!(sort(io::ErrorKind::StorageFull), LogError::DiskFull { .. }));
        assert!(matches!(sort(io::ErrorKind::QuotaExceeded), LogError::DiskFull { .. }));
        assert!(matches!(sort(io::ErrorKind::FileTooLarge), LogError::SizeLimit { .. }));
        let no_handles = LogError::io(Path::new("/state"), "open", io::Error::from_raw_os_error(24));
        assert!(matches!(no_handles, LogError::TooManyOpen { .. }));
        assert!(matches!(sort(io::ErrorKind::ReadOnlyFilesystem), LogError::ReadOnly { .. }));
        assert!(matches!(sort(io::ErrorKind::PermissionDenied), LogError::PermissionDenied { .. }));
        assert!(matches!(sort(io::ErrorKind::NotADirectory), LogError::NotADirectory { .. }));
        assert!(matches!(sort(io::ErrorKind::Interrupted), LogError::Io { .. }));
        assert!(sort(io::ErrorKind::StorageFull).to_string().contains("/state"));
    }
}
