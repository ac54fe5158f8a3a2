//! Git LFS errors.

/// Error for Git LFS objects that couldn't be fetched. The message contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LfsError {
    /// A failed batch request.
    #[error("repository {repository}: cannot fetch {files} from Git LFS: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Server {
        /// Redacted repository address.
        repository: String,
        /// Path of the first file, and the number of others.
        files: String,
        /// Message from the server or the connection.
        reason: String,
        /// Instructions for fixing the problem. Empty if unknown.
        hint: &'static str,
    },
    /// An object that isn't available.
    #[error("repository {repository}: cannot fetch {file} from Git LFS: object {oid}: {reason}; {hint}")]
    Object {
        /// Redacted repository address.
        repository: String,
        /// Path of the file.
        file: String,
        /// SHA-256 digest of the content, in hexadecimal.
        oid: String,
        /// Message from the server or the connection.
        reason: String,
        /// Instructions for fixing the problem.
        hint: &'static str,
    },
    /// Downloaded content that doesn't match its pointer.
    #[error(
        "repository {repository}: {file} does not match its Git LFS pointer: {found}; push the correct object with \
         `git lfs push --object-id origin {oid}`, or commit the file again"
    )]
    Mismatch {
        /// Redacted repository address.
        repository: String,
        /// Path of the file.
        file: String,
        /// Expected SHA-256 digest of the content, in hexadecimal.
        oid: String,
        /// Comparison of the actual and expected values.
        found: String,
    },
    /// An invalid `.lfsconfig`, or one that names a forbidden server.
    #[error("repository {repository}: .lfsconfig {reason}; correct or remove the file")]
    Config {
        /// Redacted repository address.
        repository: String,
        /// Reason, as a phrase that follows the file name.
        reason: &'static str,
    },
    /// A pointer with extensions, which are not supported.
    #[error(
        "repository {repository}: {file} is a Git LFS pointer with extensions, which are not supported; commit the pointer without extensions"
    )]
    Extended {
        /// Redacted repository address.
        repository: String,
        /// Path of the file.
        file: String,
    },
    /// Files still missing after `ROUNDS_MAX` fetches, each of which revealed more.
    #[error(
        "repository {repository}: {file} and other Git LFS files are still missing after {rounds} fetches; \
         store fewer files with Git LFS, especially kustomizations, and compare again"
    )]
    TooManyRounds {
        /// Redacted repository address.
        repository: String,
        /// Path of the first missing file.
        file: String,
        /// Number of fetches.
        rounds: usize,
    },
}
