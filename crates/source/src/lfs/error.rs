//! Git LFS errors.

/// Error that occurred while the content of Git LFS files was being obtained. It doesn't contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LfsError {
    /// The batch request failed.
    #[error("repository {repository}: cannot fetch {files} from Git LFS: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Server {
        /// Address of the repository, without secrets.
        repository: String,
        /// Path of the first file, and how many more files there are.
        files: String,
        /// Message from the server or the connection.
        reason: String,
        /// Instructions for fixing the problem. Empty if unknown.
        hint: &'static str,
    },
    /// The object of a file is unavailable.
    #[error("repository {repository}: cannot fetch {file} from Git LFS: object {oid}: {reason}; {hint}")]
    Object {
        /// Address of the repository, without secrets.
        repository: String,
        /// Path of the file.
        file: String,
        /// SHA-256 of the content in hexadecimal.
        oid: String,
        /// Message from the server or the connection.
        reason: String,
        /// Instructions for fixing the problem.
        hint: &'static str,
    },
    /// The downloaded content does not match the pointer.
    #[error(
        "repository {repository}: {file} does not match its Git LFS pointer: {found}; push the right object with \
         `git lfs push --object-id origin {oid}`, or commit the file again"
    )]
    Mismatch {
        /// Address of the repository, without secrets.
        repository: String,
        /// Path of the file.
        file: String,
        /// Expected SHA-256 of the content in hexadecimal.
        oid: String,
        /// Actual and expected values.
        found: String,
    },
    /// The `.lfsconfig` specifies a server that is not allowed.
    #[error("repository {repository}: its .lfsconfig {reason}; correct or remove it")]
    Config {
        /// Address of the repository, without secrets.
        repository: String,
        /// Reason why the server is not allowed.
        reason: &'static str,
    },
    /// The pointer uses LFS extensions, which are not supported.
    #[error(
        "repository {repository}: {file} is a Git LFS pointer with extensions, which are not supported; commit it without them"
    )]
    Extended {
        /// Address of the repository, without secrets.
        repository: String,
        /// Path of the file.
        file: String,
    },
    /// Files are still missing after the maximum number of rounds, because each round revealed more of them.
    #[error(
        "repository {repository}: {file} and other Git LFS files are still missing after {rounds} fetches; \
         store fewer files with Git LFS, especially kustomizations, and compare again"
    )]
    TooManyRounds {
        /// Address of the repository, without secrets.
        repository: String,
        /// First missing file.
        file: String,
        /// Number of rounds.
        rounds: usize,
    },
}
