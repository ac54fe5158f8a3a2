use std::path::PathBuf;

/// Error from running a control plane.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The binaries aren't installed.
    #[error("{0}")]
    NoAssets(String),
    /// A program couldn't be started or controlled.
    #[error("{program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// Cause of the error.
        why: std::io::Error,
    },
    /// A server exited unexpectedly.
    #[error("{server} ended unexpectedly; the end of its log:\n{log}")]
    Ended {
        /// The server.
        server: String,
        /// Last lines of the server's log.
        log: String,
    },
    /// A server didn't become ready.
    #[error("{server} is not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// The server.
        server: String,
        /// Timeout in seconds.
        seconds: u64,
        /// Last lines of the server's log.
        log: String,
    },
    /// An operation on a file in the control plane's folder failed.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        why: std::io::Error,
    },
    /// A line of the audit log is invalid.
    #[error("the audit log, line {line}: {why}")]
    Audit {
        /// Line number, counted from the start of the read.
        line: usize,
        /// Description of the problem.
        why: String,
    },
    /// The keys couldn't be created.
    #[error("cannot create keys: {0}")]
    Keys(#[from] rcgen::Error),
    /// The API server rejected a request of the test harness.
    #[error(transparent)]
    Call(#[from] CallError),
    /// All users without permissions are in use.
    #[error("all {0} limited users of this control plane are in use; start another control plane")]
    NoMoreUsers(usize),
}

/// Failed request.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: {why}")]
pub struct CallError {
    /// HTTP method.
    pub method: String,
    /// Path.
    pub path: String,
    /// HTTP status; 0 if there was no response.
    pub code: u16,
    /// Message from the server.
    pub why: String,
}
