use std::path::PathBuf;

use super::CallError;

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The binaries are nowhere.
    #[error("{0}")]
    NoAssets(String),
    /// A program could not be started or controlled.
    #[error("{program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// What failed.
        why: std::io::Error,
    },
    /// A server ended by itself.
    #[error("{server} ended by itself; the end of its log:\n{log}")]
    Ended {
        /// The server.
        server: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A server did not become ready.
    #[error("{server} is not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// The server.
        server: String,
        /// How long it had.
        seconds: u64,
        /// The last lines it wrote.
        log: String,
    },
    /// A file of the control plane's folder.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What failed.
        why: std::io::Error,
    },
    /// A line of the audit log cannot be read.
    #[error("the audit log, line {line}: {why}")]
    Audit {
        /// Counted from where reading began.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The keys could not be made.
    #[error("making keys: {0}")]
    Keys(#[from] rcgen::Error),
    /// The API server refused a request of the harness itself.
    #[error(transparent)]
    Call(#[from] CallError),
    /// All users without rights are given away.
    #[error("all {0} limited users of this control plane are in use; start another control plane")]
    NoMoreUsers(usize),
}
