use std::path::PathBuf;

use tidegate_model::InvalidGlob;

pub(crate) use crate::sanitize::{TEXT_MAX, to_line, to_line_keeping_ends};

/// Error that occurred while manifests were obtained. Each message contains the location of the error and how
/// to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The type of address is not supported.
    #[error(
        "repoURL {url:?}: {what} is not supported yet; use https://, ssh://, git@host:path, or a local \
         repository: an absolute path, a path that starts with ./ or ../, or file:///path"
    )]
    Address {
        /// The `repoURL`, without secrets.
        url: String,
        /// Unsupported type of address, such as `a repository over the network` or `a file address with a
        /// host`.
        what: &'static str,
    },
    /// The address is invalid.
    #[error("invalid repoURL {url:?}: {reason}")]
    InvalidAddress {
        /// The `repoURL`, without secrets.
        url: String,
        /// Reason why the address is invalid, such as a query, which repository addresses can't have.
        reason: &'static str,
    },
    /// The credentials of a repository are invalid.
    #[error("cannot access repository {repository}: Secret {secret} {reason}")]
    Credentials {
        /// Address of the repository, without secrets.
        repository: String,
        /// Secret that contains the credentials.
        secret: String,
        /// Description of the invalid part.
        reason: String,
    },
    /// A request to a server failed.
    #[error("repository {repository}: {tried}: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Remote {
        /// Address of the repository, without secrets.
        repository: String,
        /// Action that failed, such as `its branches and tags cannot be listed`.
        tried: String,
        /// Instructions for fixing the problem. Empty if unknown.
        reason: String,
        /// Remedy; empty if none is known.
        hint: &'static str,
    },
    /// The repository does not exist.
    #[error("repoURL {url:?}: cannot open a Git repository in {}: {reason}", path.display())]
    NoRepository {
        /// The `repoURL`, as written.
        url: String,
        /// Resolved path.
        path: PathBuf,
        /// Reason why the repository does not exist at this path.
        reason: String,
    },
    /// The repository has no commits.
    #[error("repository {repository} has no commits; push a commit")]
    Empty {
        /// Address of the repository, without secrets.
        repository: String,
    },
    /// The revision does not exist.
    #[error(
        "repository {repository} has no branch, tag or commit {revision:?}, and no tag matches it as a version constraint"
    )]
    NoRevision {
        /// Address of the repository, without secrets.
        repository: String,
        /// The `targetRevision`: a branch, a tag, a commit or a version constraint.
        revision: String,
    },
    /// The revision looks like an abbreviated commit, which servers can't resolve.
    #[error(
        "repository {repository} has no branch or tag {revision:?}, and it is not the start of exactly one \
         commit that a branch or tag refers to; use all 40 digits of the commit"
    )]
    NoShortCommit {
        /// Address of the repository, without secrets.
        repository: String,
        /// The `targetRevision`.
        revision: String,
    },
    /// The project requires signatures, but the commit or tag doesn't have an acceptable signature.
    #[error("repository {repository}: {what} {reason}")]
    Signature {
        /// Address of the repository, without secrets.
        repository: String,
        /// The commit or tag, such as `commit abc…` or `the tag v1 of commit abc…`.
        what: String,
        /// Reason why the signature is not accepted, and the required keys.
        reason: String,
    },
    /// The project requires signatures, but charts can't be signed.
    #[error(
        "project '{project}' has signatureKeys, so charts from Helm repositories and registries are not \
         deployed: only Git commits can be signed"
    )]
    UnsignedChart {
        /// Name of the project.
        project: String,
    },
    /// The folder does not exist.
    #[error("path {path:?} is {found} in commit {commit}; use a folder of the repository")]
    NoFolder {
        /// The `path` of the source.
        path: String,
        /// State of the path, such as `not there` or `a file`.
        found: &'static str,
        /// All 40 digits of the commit.
        commit: String,
    },
    /// The source requires a tool that is not supported.
    #[error("{what} is not supported yet{why}")]
    Unsupported {
        /// Unsupported feature, such as `Jsonnet` or `a config management plugin (source.plugin)`.
        what: String,
        /// Location and alternative, starting with `; `. Empty if the source itself requests the feature.
        why: String,
    },
    /// A file that overrides source fields is invalid.
    #[error(
        "{file}: {reason}; it must contain fields of spec.source, such as helm or kustomize: fix it or remove it"
    )]
    Overrides {
        /// Path of the file.
        file: String,
        /// Reason why the file is invalid.
        reason: String,
    },
    /// The source specifies two different tools.
    #[error("source.{} and source.{} are both set, but only one of them can render the manifests; remove the other", one.to_lowercase(), other.to_lowercase())]
    SeveralKinds {
        /// The first tool, such as `Helm` or `Kustomize`.
        one: &'static str,
        /// The second tool.
        other: &'static str,
    },
    /// The required program is missing.
    #[error("{path} is {what}, but the program {program} was not found {}; {advice}", given.as_ref().map_or("on the PATH".to_owned(), |given| format!("at {}", given.display())))]
    NoTool {
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// Description of the source: `a Helm chart` or `a folder for Kustomize`.
        what: &'static str,
        /// Name of the program, or of the alternatives.
        program: &'static str,
        /// Configured path. `None` if the program was looked up on the `PATH`.
        given: Option<PathBuf>,
        /// Instructions for installing the program or configuring its path.
        advice: &'static str,
    },
    /// Helm or Kustomize failed.
    #[error("{call} of {path}: {reason}")]
    Tool {
        /// Program and command, such as `helm template` or `kustomize build`.
        call: &'static str,
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// Truncated output of the program, or the reason why the program was stopped.
        reason: String,
        /// True if the program exited with an error. False if it could not be started or was stopped.
        is_refusal: bool,
    },
    /// The working folder of a program could not be prepared.
    #[error(
        "cannot write {}: {reason}; check that the disk that contains the state directory is not full, and \
         that no other process is modifying the directory",
        path.display()
    )]
    Workshop {
        /// Path in the state directory.
        path: PathBuf,
        /// Message from the operating system.
        reason: String,
    },
    /// A file name in the repository is not safe to pass to a program.
    #[error(
        "{path} has a name that is not safe as an argument of Helm or Kustomize; rename the file in the \
         repository"
    )]
    Name {
        /// Path in the repository, with nonprinting characters escaped.
        path: String,
    },
    /// The source is configured for Helm, but the folder is not a chart.
    #[error(
        "{path} is configured as a Helm chart, but has no Chart.yaml; add the file, or remove source.helm"
    )]
    NoChart {
        /// The `path` of the source.
        path: String,
    },
    /// The source is configured for Kustomize, but the folder has no kustomization.
    #[error(
        "{path} is configured for Kustomize, but has no kustomization.yaml; add the file, or remove source.kustomize"
    )]
    NoKustomization {
        /// The `path` of the source.
        path: String,
    },
    /// A kustomization is invalid.
    #[error("{file}: {reason}")]
    Kustomization {
        /// Path in the repository, such as `base/kustomization.yaml`.
        file: String,
        /// Reason why the kustomization is invalid.
        reason: String,
    },
    /// A kustomization refers to a server, which is not allowed or not supported.
    #[error("{file} refers to {base}, which is remote; {why}")]
    RemoteBase {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base, resource or chart as written, without secrets.
        base: String,
        /// Reason, and how to fix the problem.
        why: &'static str,
    },
    /// A remote base or resource of a kustomization could not be fetched.
    #[error("{file} refers to {base}: {reason}")]
    Base {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base or resource as written, without secrets.
        base: String,
        /// Reason: a problem, a message from the server, or the project that forbids the base or resource.
        reason: String,
    },
    /// The repository does not have the chart.
    #[error(
        "repository {repository} has no chart {chart:?}; its charts are: {}",
        if known.is_empty() { "none" } else { known }
    )]
    NoSuchChart {
        /// Address of the repository, without secrets.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// Names of the repository's first few charts, and how many more there are. May be empty.
        known: String,
    },
    /// The chart does not have the version.
    #[error(
        "repository {repository} has no version {version} of its chart {chart:?}; set targetRevision to a version or a constraint such as 1.*"
    )]
    NoVersion {
        /// Address of the repository, without secrets.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// The `targetRevision`: a version or a constraint. If `targetRevision` is empty, this is the
        /// constraint that allows any version.
        version: String,
    },
    /// A chart source specifies a tool other than Helm.
    #[error("only Helm can render source.chart; remove source.directory and source.kustomize")]
    NotHelm,
    /// The Helm parameters are invalid.
    #[error("chart {chart}: {reason}")]
    Helm {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Reason why `source.helm` is invalid.
        reason: String,
    },
    /// Dependencies of the chart are missing.
    #[error(
        "chart {chart} depends on the charts {missing}, which are missing from its charts folder; {why}run \
         `helm dependency update` there and commit the result"
    )]
    Dependencies {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Names of the missing charts, with their repositories if known.
        missing: String,
        /// Reason why the charts are not fetched, ending in `or `. Empty if the dependencies don't specify a
        /// repository.
        why: &'static str,
    },
    /// A dependency of a chart could not be fetched.
    #[error("chart {chart} depends on the chart {missing}: {reason}")]
    Dependency {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Name of the dependency and its repository.
        missing: String,
        /// Reason: a problem, a message from the server, or the project that forbids the dependency.
        reason: String,
    },
    /// The lock file does not match the chart's dependencies.
    #[error(
        "chart {chart}: its {lock} is out of sync with its dependencies: {reason}; run `helm dependency update` there and commit the result"
    )]
    Lock {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// `Chart.lock` or `requirements.lock`.
        lock: &'static str,
        /// Description of the dependency that differs.
        reason: String,
    },
    /// A values file is missing.
    #[error(
        "values file {file:?} does not exist: {place} has no file {path}; commit it, correct source.helm, or set ignoreMissingValueFiles"
    )]
    NoValueFile {
        /// The entry in `valueFiles`, as written.
        file: String,
        /// Resolved path.
        path: String,
        /// Commit or chart that was searched.
        place: String,
    },
    /// A pattern in `valueFiles` doesn't match any file.
    #[error(
        "values file glob {pattern:?} matched no files; commit one, correct source.helm.valueFiles, or set ignoreMissingValueFiles"
    )]
    NoMatch {
        /// The entry in `valueFiles`, as written.
        pattern: String,
    },
    /// A values file is on a server.
    #[error(
        "values file {file:?} is remote, and remote values files are not fetched; commit it to a repository, and \
         add that as a source with a ref"
    )]
    RemoteFile {
        /// The address, as written.
        file: String,
    },
    /// A values file refers to a source that does not exist.
    #[error(
        "values file {file:?} refers to a source with ref {name:?}, which does not exist{}",
        if known.is_empty() { String::new() } else { format!("; known refs: {known}") }
    )]
    NoReference {
        /// The entry in `valueFiles` as written, such as `$values/prod.yaml`.
        file: String,
        /// The `ref` in the entry, without `$`.
        name: String,
        /// The refs of all sources, each with a `$`. May be empty.
        known: String,
    },
    /// A path leads outside the repository.
    #[error("path {path:?} leads out of the repository; use a path inside it")]
    Outside {
        /// The path after variables have been replaced.
        path: String,
    },
    /// A symbolic link leads outside the repository.
    #[error(
        "{path} is a link to {target:?}, which is outside the repository; replace the link with a copy of its target"
    )]
    Link {
        /// Path of the link in the repository.
        path: String,
        /// Target of the link.
        target: String,
    },
    /// The target of a symbolic link does not exist.
    #[error("{path} is a link to {target:?}, which does not exist; correct or remove the link")]
    DeadLink {
        /// Path of the link in the repository.
        path: String,
        /// Path of the target in the repository.
        target: String,
    },
    /// The folder contains a submodule, so its manifests would be incomplete.
    #[error(
        "{path} is a submodule, and submodules are not supported yet, so its manifests would be missing; copy them into the repository"
    )]
    Submodule {
        /// Path of the submodule in the repository.
        path: String,
    },
    /// A size limit was exceeded.
    #[error("path {path:?} has more than {limit} {what}")]
    Limit {
        /// The `path` of the source, or a folder below it.
        path: String,
        /// The limit that was exceeded.
        limit: u64,
        /// Unit of the limit, such as `bytes of manifests` or `files and folders`.
        what: &'static str,
    },
    /// A pattern is invalid.
    #[error("invalid pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern as written.
        pattern: String,
        /// Reason why the pattern is invalid.
        reason: &'static str,
    },
    /// The repository could not be read.
    #[error("cannot read repository {repository}: {reason}")]
    Read {
        /// Address of the repository, without secrets.
        repository: String,
        /// Message from the Git library, including its causes.
        reason: String,
    },
    /// Content stored by Git LFS could not be fetched.
    #[error(transparent)]
    Lfs(#[from] crate::lfs::LfsError),
    /// A folder could not be committed.
    #[error("cannot commit {}: {reason}", folder.display())]
    Write {
        /// The folder on this machine.
        folder: PathBuf,
        /// Message from the operating system or the Git library.
        reason: String,
    },
}

/// Cause of a [`SourceError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The content of the revision or of the specification. The same revision will always fail.
    Content,
    /// A program or a server refused something that the revision refers to. The cause may be the revision,
    /// the program or the server.
    Refusal,
    /// The environment, such as an unreachable repository or a missing program. A retry may succeed.
    Environment,
}

impl SourceError {
    /// Returns the cause of the failure.
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::Credentials { .. }
            | Self::Remote { .. }
            | Self::NoRepository { .. }
            | Self::NoTool { .. }
            | Self::Tool { is_refusal: false, .. }
            | Self::Workshop { .. }
            | Self::Read { .. }
            | Self::Lfs(crate::lfs::LfsError::Server { .. })
            | Self::Write { .. } => FailureCause::Environment,
            Self::Tool { .. } | Self::Base { .. } | Self::Dependency { .. } | Self::Lfs(_) => {
                FailureCause::Refusal
            }
            _ => FailureCause::Content,
        }
    }
}

/// Formats a Git library error along with its causes.
pub(crate) fn git_error_text(error: &gix::Error) -> String {
    error.iter_errors().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<InvalidGlob> for SourceError {
    fn from(InvalidGlob { pattern, reason }: InvalidGlob) -> Self {
        Self::Pattern { pattern, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_of_the_environment_can_pass() {
        let text = String::new;
        let tool = |is_refusal| SourceError::Tool {
            call: "helm template",
            path: text(),
            reason: text(),
            is_refusal,
        };
        for (error, expected) in [
            (
                SourceError::Remote { repository: text(), tried: text(), reason: text(), hint: "" },
                FailureCause::Environment,
            ),
            (SourceError::Read { repository: text(), reason: text() }, FailureCause::Environment),
            (tool(false), FailureCause::Environment),
            (tool(true), FailureCause::Refusal),
            (
                SourceError::Dependency { chart: text(), missing: text(), reason: text() },
                FailureCause::Refusal,
            ),
            (SourceError::NoRevision { repository: text(), revision: text() }, FailureCause::Content),
            (
                SourceError::NoFolder { path: text(), found: "not there", commit: text() },
                FailureCause::Content,
            ),
        ] {
            assert_eq!(error.cause(), expected, "{error:?}");
        }
    }
}
