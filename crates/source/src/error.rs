use std::path::PathBuf;

use tidegate_model::InvalidGlob;

pub(crate) use crate::sanitize::{TEXT_MAX, to_line, to_line_keeping_ends};

/// Error while obtaining manifests. The message says where the error is and, if possible, how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A `repoURL` of an unsupported type.
    #[error(
        "repoURL {url:?}: {what} is not supported yet; use https://, ssh://, git@host:path, or a local \
         repository (an absolute path, a path starting with ./ or ../, or file:///path)"
    )]
    Address {
        /// Redacted `repoURL`.
        url: String,
        /// Unsupported type of address, such as `a remote repository` or `a file URL with a host`.
        what: &'static str,
    },
    /// An invalid `repoURL`.
    #[error("invalid repoURL {url:?}: {reason}")]
    InvalidAddress {
        /// Redacted `repoURL`.
        url: String,
        /// Reason the address is invalid, such as an unexpected query.
        reason: &'static str,
    },
    /// Invalid repository credentials.
    #[error("cannot access repository {repository}: Secret {secret} {reason}")]
    Credentials {
        /// Redacted repository address.
        repository: String,
        /// Secret with the credentials.
        secret: String,
        /// Description of the invalid part.
        reason: String,
    },
    /// A failed request to a server.
    #[error("repository {repository}: {tried}: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Remote {
        /// Redacted repository address.
        repository: String,
        /// Action that failed, such as `cannot list tags`.
        tried: String,
        /// Reason for the failure.
        reason: String,
        /// Instructions for fixing the problem. Empty if unknown.
        hint: &'static str,
    },
    /// A local repository that can't be opened.
    #[error("repoURL {url:?}: cannot open a Git repository in {}: {reason}", path.display())]
    NoRepository {
        /// The `repoURL` as written.
        url: String,
        /// Path that the `repoURL` resolves to.
        path: PathBuf,
        /// Reason the repository can't be opened.
        reason: String,
    },
    /// A repository without commits.
    #[error("repository {repository} has no commits; push a commit")]
    Empty {
        /// Redacted repository address.
        repository: String,
    },
    /// A revision that doesn't exist.
    #[error(
        "repository {repository} has no branch, tag or commit {revision:?}, and no tag satisfies it as a version constraint"
    )]
    NoRevision {
        /// Redacted repository address.
        repository: String,
        /// The `targetRevision`: a branch, a tag, a commit or a version constraint.
        revision: String,
    },
    /// A revision that looks like an abbreviated commit, which servers can't resolve.
    #[error(
        "repository {repository} has no branch or tag {revision:?}, and this abbreviated commit ID \
         matches no commit or several commits of its branches and tags; use the full 40-digit ID"
    )]
    NoShortCommit {
        /// Redacted repository address.
        repository: String,
        /// The `targetRevision`.
        revision: String,
    },
    /// A commit or tag without a signature accepted by the project.
    #[error("repository {repository}: {what} {reason}")]
    Signature {
        /// Redacted repository address.
        repository: String,
        /// The commit or tag, such as `commit abc…` or `the tag v1 of commit abc…`.
        what: String,
        /// Reason for rejecting the signature, and the required keys.
        reason: String,
    },
    /// A chart in a project that requires signatures. Charts can't be signed.
    #[error(
        "project '{project}' has signatureKeys, so charts from Helm repositories and registries are not \
         deployed: only Git commits can be signed"
    )]
    UnsignedChart {
        /// Name of the project.
        project: String,
    },
    /// A path that isn't a folder.
    #[error("path {path:?} is {found} in commit {commit}; use a folder in the repository")]
    NoFolder {
        /// The `path` of the source.
        path: String,
        /// State of the path, such as `missing` or `a file`.
        found: &'static str,
        /// Full ID of the commit.
        commit: String,
    },
    /// A feature that isn't supported.
    #[error("{what} is not supported yet{why}")]
    Unsupported {
        /// Unsupported feature, such as `Jsonnet` or `a config management plugin (source.plugin)`.
        what: String,
        /// Location of the feature and an alternative, starting with `; `. Empty if the source itself uses
        /// the feature.
        why: String,
    },
    /// An invalid file with source overrides.
    #[error(
        "{file}: {reason}; the file must contain fields of spec.source, such as helm or kustomize; fix or remove the file"
    )]
    Overrides {
        /// Path of the file.
        file: String,
        /// Reason the file is invalid.
        reason: String,
    },
    /// A source configured for two different tools.
    #[error("source.{} and source.{} are both set, but only one of them can render the manifests; remove one of them", one.to_lowercase(), other.to_lowercase())]
    SeveralKinds {
        /// The first tool, such as `Helm` or `Kustomize`.
        one: &'static str,
        /// The second tool.
        other: &'static str,
    },
    /// A required program that wasn't found.
    #[error("{path} is {what}, but {program} was not found {}; {advice}", given.as_ref().map_or("on the PATH".to_owned(), |given| format!("at {}", given.display())))]
    NoTool {
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// Description of the source, such as `a Helm chart` or `a folder for Kustomize`.
        what: &'static str,
        /// Name of the program, or of alternative programs.
        program: &'static str,
        /// Configured path. `None` if the program was looked up on the `PATH`.
        given: Option<PathBuf>,
        /// Instructions for installing the program or configuring its path.
        advice: &'static str,
    },
    /// A failed call of Helm or Kustomize.
    #[error("{call} failed for {path}: {reason}")]
    Tool {
        /// Program and command, such as `helm template` or `kustomize build`.
        call: &'static str,
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// Output of the program, possibly truncated, or the reason it was stopped.
        reason: String,
        /// True if the program exited with an error, false if it couldn't be started or was stopped.
        is_refusal: bool,
    },
    /// A working folder that couldn't be prepared.
    #[error(
        "cannot write {}: {reason}; check that the disk with the state directory is not full and that no \
         other process is modifying the directory",
        path.display()
    )]
    Workshop {
        /// Path in the state directory.
        path: PathBuf,
        /// Message from the operating system.
        reason: String,
    },
    /// A file in the repository with a name that is unsafe to pass to a program.
    #[error("the name of {path} is not safe to pass to Helm or Kustomize; rename the file in the repository")]
    Name {
        /// Path in the repository, with nonprintable characters escaped.
        path: String,
    },
    /// A source configured for Helm that isn't a chart.
    #[error(
        "{path} is configured as a Helm chart, but has no Chart.yaml; add the file, or remove source.helm"
    )]
    NoChart {
        /// The `path` of the source.
        path: String,
    },
    /// A source configured for Kustomize that has no kustomization.
    #[error(
        "{path} is configured for Kustomize, but has no kustomization.yaml; add the file, or remove source.kustomize"
    )]
    NoKustomization {
        /// The `path` of the source.
        path: String,
    },
    /// An invalid kustomization.
    #[error("{file}: {reason}")]
    Kustomization {
        /// Path in the repository, such as `base/kustomization.yaml`.
        file: String,
        /// Reason the kustomization is invalid.
        reason: String,
    },
    /// A kustomization that refers to a server in a forbidden or unsupported way.
    #[error("{file} refers to {base}, which is remote; {why}")]
    RemoteBase {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base, resource or chart as written, redacted.
        base: String,
        /// Reason, and how to fix it.
        why: &'static str,
    },
    /// A remote base or resource that couldn't be fetched.
    #[error("{file} refers to {base}: {reason}")]
    Base {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base or resource as written, redacted.
        base: String,
        /// Reason, such as a message from the server, or a project that doesn't permit the base or resource.
        reason: String,
    },
    /// A chart missing from the repository.
    #[error(
        "repository {repository} has no chart {chart:?}; available charts: {}",
        if known.is_empty() { "none" } else { known }
    )]
    NoSuchChart {
        /// Redacted repository address.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// Names of the first few charts in the repository, and the number of others. May be empty.
        known: String,
    },
    /// A missing version of a chart.
    #[error(
        "repository {repository} has no version {version} of chart {chart:?}; set targetRevision to a version or a constraint such as 1.*"
    )]
    NoVersion {
        /// Redacted repository address.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// Version or version constraint from `targetRevision`. If that is empty, `*`, which allows any
        /// version.
        version: String,
    },
    /// A chart source configured for a tool other than Helm.
    #[error("only Helm can render source.chart; remove source.directory and source.kustomize")]
    NotHelm,
    /// Invalid Helm settings.
    #[error("chart {chart}: {reason}")]
    Helm {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Reason `source.helm` is invalid.
        reason: String,
    },
    /// Dependencies missing from a chart.
    #[error(
        "chart {chart} depends on the charts {missing}, which are missing from its charts folder; {why}run \
         `helm dependency update` in the chart's folder and commit the result"
    )]
    Dependencies {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Names of the missing charts, with their repositories if known.
        missing: String,
        /// Reason for not fetching the missing charts, ending with `or `. Empty if the dependencies don't
        /// name a repository.
        why: &'static str,
    },
    /// A dependency of a chart that couldn't be fetched.
    #[error("chart {chart} depends on the chart {missing}: {reason}")]
    Dependency {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// Name of the dependency and its repository.
        missing: String,
        /// Reason, such as a message from the server, or a project that doesn't permit the dependency.
        reason: String,
    },
    /// A lock file that doesn't match its chart's dependencies.
    #[error(
        "chart {chart}: {lock} is out of sync with the dependencies: {reason}; run `helm dependency update` in the chart's folder and commit the result"
    )]
    Lock {
        /// Name of the chart, or the `path` of its folder.
        chart: String,
        /// `Chart.lock` or `requirements.lock`.
        lock: &'static str,
        /// Description of the difference.
        reason: String,
    },
    /// A values file that doesn't exist.
    #[error(
        "values file {file:?} does not exist: {place} has no file {path}; commit the file, correct source.helm, or set ignoreMissingValueFiles"
    )]
    NoValueFile {
        /// The entry of `valueFiles`, as written.
        file: String,
        /// Path that the entry resolves to.
        path: String,
        /// Commit or chart that should contain the file.
        place: String,
    },
    /// A pattern in `valueFiles` that doesn't match any file.
    #[error(
        "values file glob {pattern:?} matched no files; commit a matching file, correct source.helm.valueFiles, or set ignoreMissingValueFiles"
    )]
    NoMatch {
        /// The entry of `valueFiles`, as written.
        pattern: String,
    },
    /// A values file on a server. Such files aren't fetched.
    #[error(
        "values file {file:?} is remote, and remote values files are not fetched; commit the file to a repository, and \
         add that repository as a source with a ref"
    )]
    RemoteFile {
        /// URL of the file, as written.
        file: String,
    },
    /// A values file that refers to a nonexistent source.
    #[error(
        "values file {file:?} refers to ref {name:?}, but no source has this ref{}",
        if known.is_empty() { String::new() } else { format!("; known refs: {known}") }
    )]
    NoReference {
        /// The entry of `valueFiles`, as written, such as `$values/prod.yaml`.
        file: String,
        /// The `ref` in the entry, without `$`.
        name: String,
        /// The refs of all sources, each with a leading `$`. May be empty.
        known: String,
    },
    /// A path outside the repository.
    #[error("path {path:?} is outside the repository; use a path inside the repository")]
    Outside {
        /// The path, with variables replaced.
        path: String,
    },
    /// A symbolic link to a target outside the repository.
    #[error(
        "{path} is a link to {target:?}, which is outside the repository; replace the link with a copy of its target"
    )]
    Link {
        /// Path of the link in the repository.
        path: String,
        /// Target of the link.
        target: String,
    },
    /// A dangling symbolic link.
    #[error("{path} is a link to {target:?}, which does not exist; correct or remove the link")]
    DeadLink {
        /// Path of the link in the repository.
        path: String,
        /// Path of the target in the repository.
        target: String,
    },
    /// A submodule. Without its content, the manifests would be incomplete.
    #[error(
        "{path} is a submodule, and submodules are not supported yet, so its manifests would be missing; copy the manifests into the repository"
    )]
    Submodule {
        /// Path of the submodule in the repository.
        path: String,
    },
    /// A source that exceeds a size limit.
    #[error("path {path:?} contains more than {limit} {what}")]
    Limit {
        /// The `path` of the source, or of a folder within it.
        path: String,
        /// The exceeded limit.
        limit: u64,
        /// Unit of the limit, such as `bytes of manifests` or `files and folders`.
        what: &'static str,
    },
    /// An invalid pattern.
    #[error("invalid pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern, as written.
        pattern: String,
        /// Reason the pattern is invalid.
        reason: &'static str,
    },
    /// A repository that couldn't be read.
    #[error("cannot read repository {repository}: {reason}")]
    Read {
        /// Redacted repository address.
        repository: String,
        /// Message from the Git library, including its causes.
        reason: String,
    },
    /// Git LFS content that couldn't be fetched.
    #[error(transparent)]
    Lfs(#[from] crate::lfs::LfsError),
    /// A folder that couldn't be committed.
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
    /// The revision or the spec is at fault. Retrying with the same revision always fails.
    Content,
    /// A program or server rejected something in the revision. Either side may be at fault.
    Refusal,
    /// The environment is at fault, such as an unreachable repository or a missing program. A retry may
    /// succeed.
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

/// Formats a Git library error with its causes.
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
