use std::path::PathBuf;

use tidegate_model::InvalidGlob;

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
    #[error("{what} is not supported yet{why}")]
    Unsupported {
        /// What.
        what: String,
        /// Why it is thought to be wanted, or nothing.
        why: String,
    },
    /// It is said that two things make the manifests.
    #[error("source.{} and source.{} are both there, and only one of them can make the manifests; take the other away", one.to_lowercase(), other.to_lowercase())]
    SeveralKinds {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// The program that makes the manifests is missing.
    #[error("{path} is {what}, and there is no program {program} {}; {advice}", given.as_ref().map_or("here".to_owned(), |given| format!("at {}", given.display())))]
    NoTool {
        /// The folder or chart.
        path: String,
        /// What it is.
        what: &'static str,
        /// Which program.
        program: &'static str,
        /// Where it should be, if that was said.
        given: Option<PathBuf>,
        /// What to do.
        advice: &'static str,
    },
    /// The program that makes the manifests has made none.
    #[error("{call} of {path}: {reason}")]
    Tool {
        /// How it was called.
        call: &'static str,
        /// For which folder or chart.
        path: String,
        /// What happened.
        reason: String,
    },
    /// A program cannot be given what it needs.
    #[error("{} cannot be written: {reason}; the state directory needs room, and belongs to this process alone", path.display())]
    Workshop {
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A file of the repository has a name that no program should see.
    #[error("{path} has a name that is not passed on to programs; rename it in the repository")]
    Name {
        /// Which, escaped.
        path: String,
    },
    /// A folder is said to be a chart, and is none.
    #[error("{path} is said to be a Helm chart, and has no Chart.yaml")]
    NoChart {
        /// Which.
        path: String,
    },
    /// A folder is said to be for Kustomize, and is not.
    #[error("{path} is said to be for Kustomize, and has no kustomization.yaml")]
    NoKustomization {
        /// Which.
        path: String,
    },
    /// A kustomization cannot be used.
    #[error("{file}: {reason}")]
    Kustomization {
        /// Which.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A kustomization needs what is on a server.
    #[error(
        "{file} names {base}, which is on a server, and such are not fetched; copy it into the repository, or make it a source of its own"
    )]
    RemoteBase {
        /// Which.
        file: String,
        /// What it names, without what is secret.
        base: String,
    },
    /// A repository has no such chart.
    #[error("the repository {repository} has no chart {chart:?}; it has {}", if known.is_empty() { "none" } else { known })]
    NoSuchChart {
        /// Which repository.
        repository: String,
        /// Which chart.
        chart: String,
        /// Charts that it has.
        known: String,
    },
    /// A chart has no such version.
    #[error(
        "the repository {repository} has no version {version} of its chart {chart:?}; correct targetRevision, which is a version or a constraint such as 1.*"
    )]
    NoVersion {
        /// Which repository.
        repository: String,
        /// Which chart.
        chart: String,
        /// What was asked for.
        version: String,
    },
    /// Something else than Helm is to make manifests of a chart.
    #[error("source.chart is made by Helm alone; take source.directory and source.kustomize away")]
    NotOfCharts,
    /// What a chart is to be told makes no sense.
    #[error("chart {chart}: {reason}")]
    Helm {
        /// Which.
        chart: String,
        /// What.
        reason: String,
    },
    /// A chart needs others.
    #[error(
        "chart {chart} needs the charts {missing}, which are not in its folder charts, and charts are not fetched for others; run `helm dependency update` there and commit what it brings"
    )]
    Dependencies {
        /// Which.
        chart: String,
        /// Those it needs.
        missing: String,
    },
    /// A file of values is missing.
    #[error(
        "the values file {file:?} is not there: {place} has no file {path}; commit it, correct source.helm, or set ignoreMissingValueFiles"
    )]
    NoValueFile {
        /// As it was asked for.
        file: String,
        /// Where it would be.
        path: String,
        /// In what.
        place: String,
    },
    /// No file of values is meant.
    #[error(
        "values file glob {pattern:?} matched no files; commit one, correct source.helm.valueFiles, or set ignoreMissingValueFiles"
    )]
    NoMatch {
        /// As it was asked for.
        pattern: String,
    },
    /// A file is on a server.
    #[error(
        "the values file {file:?} is on a server, and such are not fetched; commit it to a repository, and name that as a source with a ref"
    )]
    RemoteFile {
        /// Which.
        file: String,
    },
    /// A file of a source that is not there.
    #[error("the values file {file:?} is of a source with the ref {name:?}, and there is none{}", if known.is_empty() { String::new() } else { format!("; there is {known}") })]
    NoReference {
        /// As it was asked for.
        file: String,
        /// The name of the source.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A path leads out of the repository.
    #[error("the path {path:?} leads out of the repository")]
    Outside {
        /// Which.
        path: String,
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

/// Longest text of somebody else that is passed on, in characters.
pub(crate) const TEXT_MAX: usize = 300;

/// One line of reasonable length.
pub(crate) fn plain(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.chars().count() <= TEXT_MAX {
        return line.to_owned();
    }
    line.chars().take(TEXT_MAX).chain(['…']).collect()
}

/// The same of what a program says: what it was doing comes first, and why it could not at last.
pub(crate) fn plain_ends(text: &str) -> String {
    const BEGIN: usize = TEXT_MAX / 3;
    let line: Vec<char> = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let begin = line.iter().take(BEGIN);
    let left_out = line.len().saturating_sub(TEXT_MAX);
    if left_out == 0 {
        return line.iter().collect();
    }
    begin.chain(&[' ', '…', ' ']).chain(line.iter().skip(BEGIN.saturating_add(left_out))).collect()
}

/// The words of an error of the Git library, with its causes.
pub(crate) fn reason(error: &gix::Error) -> String {
    error.iter_errors().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<InvalidGlob> for SourceError {
    fn from(InvalidGlob { pattern, reason }: InvalidGlob) -> Self {
        Self::Pattern { pattern, reason }
    }
}
