use std::path::PathBuf;

/// Why manifests could not be had. Each text names the place and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Repositories are not reached this way.
    #[error(
        "repoURL {url:?}: {what} is not supported yet; name a repository by https://, by ssh://, as git@host:path, or one on this machine: an absolute path, a path that begins with ./ or ../, or file:///path"
    )]
    Address {
        /// What was asked for.
        url: String,
        /// Which way.
        what: &'static str,
    },
    /// The address of a repository cannot be one.
    #[error("repoURL {url:?} cannot be used: {reason}")]
    BadAddress {
        /// What was asked for, without what is secret.
        url: String,
        /// Why not.
        reason: &'static str,
    },
    /// What is given for a repository cannot be used.
    #[error("the repository {repository} cannot be reached: Secret {secret} {reason}")]
    Credentials {
        /// Which repository.
        repository: String,
        /// The Secret that is meant for it.
        secret: String,
        /// What of it cannot be used.
        reason: String,
    },
    /// A server did not do what was asked of it.
    #[error("the repository {repository}: {tried}: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Remote {
        /// Which repository.
        repository: String,
        /// What was tried.
        tried: String,
        /// What happened.
        reason: String,
        /// What to do about it, or nothing.
        hint: &'static str,
    },
    /// There is no repository.
    #[error("repoURL {url:?}: there is no Git repository in {}: {reason}", path.display())]
    NoRepository {
        /// What was asked for.
        url: String,
        /// Where that is.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The repository has no commit yet.
    #[error("the repository {repository} has no commit yet")]
    Empty {
        /// Which.
        repository: String,
    },
    /// There is no such revision.
    #[error(
        "the repository {repository} has no branch, tag or commit {revision:?}, and as a version constraint that allows none of its tags"
    )]
    NoRevision {
        /// Which repository.
        repository: String,
        /// What was asked for.
        revision: String,
    },
    /// The beginning of a commit says nothing to a server.
    #[error(
        "the repository {repository} has no branch or tag {revision:?}, nor is it the beginning of one commit that these are at; write all 40 digits of the commit"
    )]
    NoShortCommit {
        /// Which repository.
        repository: String,
        /// What was asked for.
        revision: String,
    },
    /// There is no such folder.
    #[error("path {path:?} is {found} in commit {commit}; name a folder of the repository")]
    NoFolder {
        /// What was asked for.
        path: String,
        /// `not there`, `a file` …
        found: &'static str,
        /// In which commit.
        commit: String,
    },
    /// Something else would have to make the manifests.
    #[error("{what} is not supported yet; only folders of plain manifests are{why}")]
    Unsupported {
        /// What.
        what: String,
        /// Why it is thought to be wanted, or nothing.
        why: String,
    },
    /// A symbolic link leads out of the repository.
    #[error("{path} is a link to {target:?}, which is outside of the repository")]
    Link {
        /// Where it is.
        path: String,
        /// Where it leads to.
        target: String,
    },
    /// A symbolic link leads nowhere.
    #[error("{path} is a link to {target:?}, where no file is")]
    DeadLink {
        /// Where it is.
        path: String,
        /// Where it leads to.
        target: String,
    },
    /// The manifests would not be complete.
    #[error("{path} is a submodule; submodules are not supported yet, so its manifests would be missing")]
    Submodule {
        /// Where it is.
        path: String,
    },
    /// There is more than anybody reads.
    #[error("path {path:?} has more than {limit} {what}")]
    Limit {
        /// The folder.
        path: String,
        /// How many are allowed.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// A pattern cannot be read.
    #[error("the pattern {pattern:?} cannot be used: {reason}")]
    Pattern {
        /// Which.
        pattern: String,
        /// Why not.
        reason: &'static str,
    },
    /// The repository could not be read.
    #[error("the repository {repository} cannot be read: {reason}")]
    Read {
        /// Which.
        repository: String,
        /// Why not.
        reason: String,
    },
    /// A folder could not be committed.
    #[error("{} cannot be committed: {reason}", folder.display())]
    Write {
        /// Which.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The words of an error of the Git library, with its causes.
pub(crate) fn reason(error: &gix::Error) -> String {
    error.iter_errors().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
