use std::path::PathBuf;

use tidegate_model::InvalidGlob;

pub(crate) use crate::words::{TEXT_MAX, plain, plain_ends};

/// Why manifests could not be had. Each text names the place and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Repositories are not reached this way.
    #[error(
        "repoURL {url:?}: {what} is not supported yet; name a repository by https://, by ssh://, as git@host:path, or one on this machine: an absolute path, a path that begins with ./ or ../, or file:///path"
    )]
    Address {
        /// The `repoURL`, without what is secret in it.
        url: String,
        /// The way that is not supported: `a repository over the network`, `a file address with a host` …
        what: &'static str,
    },
    /// The address of a repository cannot be one.
    #[error("repoURL {url:?} cannot be used: {reason}")]
    BadAddress {
        /// The `repoURL`, without what is secret in it.
        url: String,
        /// What about it is wrong, such as a query, which repositories do not have.
        reason: &'static str,
    },
    /// What is given for a repository cannot be used.
    #[error("the repository {repository} cannot be reached: Secret {secret} {reason}")]
    Credentials {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The Secret that is meant for it.
        secret: String,
        /// What of it cannot be used.
        reason: String,
    },
    /// A server did not do what was asked of it.
    #[error("the repository {repository}: {tried}: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Remote {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// What could not be done: `its branches and tags cannot be listed` …
        tried: String,
        /// What the server or the connection said.
        reason: String,
        /// What to do about it; empty where nothing is known to help.
        hint: &'static str,
    },
    /// There is no repository.
    #[error("repoURL {url:?}: there is no Git repository in {}: {reason}", path.display())]
    NoRepository {
        /// The `repoURL`, as it was given.
        url: String,
        /// Where that is.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The repository has no commit yet.
    #[error("the repository {repository} has no commit yet")]
    Empty {
        /// The repository's address, as it is shown to people.
        repository: String,
    },
    /// There is no such revision.
    #[error(
        "the repository {repository} has no branch, tag or commit {revision:?}, and none of its tags matches that as a version constraint"
    )]
    NoRevision {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The `targetRevision`: a branch, a tag, a commit or a version constraint.
        revision: String,
    },
    /// The beginning of a commit says nothing to a server.
    #[error(
        "the repository {repository} has no branch or tag {revision:?}, nor is it the beginning of one commit that these are at; write all 40 digits of the commit"
    )]
    NoShortCommit {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The `targetRevision`, which looks like the first digits of a commit.
        revision: String,
    },
    /// A project asks for signatures, and this one is not what it asks for.
    #[error("the repository {repository}: {what} {reason}")]
    Signature {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// `commit abc…`, or `the tag v1 of commit abc…`.
        what: String,
        /// What is wrong with its signature, and which is asked for.
        reason: String,
    },
    /// A project asks for signatures, and charts have none.
    #[error(
        "project '{project}' has signatureKeys, and only commits of Git repositories can be signed: nothing of a Helm repository or a registry is deployed for it"
    )]
    UnsignedChart {
        /// The project.
        project: String,
    },
    /// There is no such folder.
    #[error("path {path:?} is {found} in commit {commit}; name a folder of the repository")]
    NoFolder {
        /// The `path` of the source.
        path: String,
        /// `not there`, `a file` …
        found: &'static str,
        /// All 40 digits of the commit.
        commit: String,
    },
    /// Something else would have to make the manifests.
    #[error("{what} is not supported yet{why}")]
    Unsupported {
        /// What was asked for: `Jsonnet`, `a config management plugin (source.plugin)` …
        what: String,
        /// Where it was met and how to do without it, from `; ` on; empty where the source itself asks for it.
        why: String,
    },
    /// A file that changes a source cannot be used.
    #[error(
        "{file}: {reason}; it is to hold parts of spec.source, such as helm or kustomize: mend it, or take it away"
    )]
    Overrides {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is said that two things make the manifests.
    #[error("source.{} and source.{} are both there, and only one of them can make the manifests; take the other away", one.to_lowercase(), other.to_lowercase())]
    SeveralKinds {
        /// The one named first: `Helm`, `Kustomize` …
        one: &'static str,
        /// The one that contradicts it.
        other: &'static str,
    },
    /// The program that makes the manifests is missing.
    #[error("{path} is {what}, and there is no program {program} {}; {advice}", given.as_ref().map_or("here".to_owned(), |given| format!("at {}", given.display())))]
    NoTool {
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// `a Helm chart` or `a folder for Kustomize`.
        what: &'static str,
        /// Its name, or the names of those that would do.
        program: &'static str,
        /// Where it was said to be; `None`: it was looked for on the `PATH`.
        given: Option<PathBuf>,
        /// How to install it, or to say where it is.
        advice: &'static str,
    },
    /// The program that makes the manifests has made none.
    #[error("{call} of {path}: {reason}")]
    Tool {
        /// Program and command: `helm template`, `kustomize build` …
        call: &'static str,
        /// The `path` of the folder, or the name of the chart.
        path: String,
        /// What the program printed about it, shortened; or why it was stopped.
        reason: String,
    },
    /// A program cannot be given what it needs.
    #[error("{} cannot be written: {reason}; the state directory needs room, and belongs to this process alone", path.display())]
    Workshop {
        /// Where it was to be, in the state directory.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A file of the repository has a name that no program should see.
    #[error("{path} has a name that is not passed on to programs; rename it in the repository")]
    Name {
        /// Its path in the repository, with escapes for what is not printed.
        path: String,
    },
    /// A folder is said to be a chart, and is none.
    #[error("{path} is said to be a Helm chart, and has no Chart.yaml")]
    NoChart {
        /// The `path` of the source.
        path: String,
    },
    /// A folder is said to be for Kustomize, and is not.
    #[error("{path} is said to be for Kustomize, and has no kustomization.yaml")]
    NoKustomization {
        /// The `path` of the source.
        path: String,
    },
    /// A kustomization cannot be used.
    #[error("{file}: {reason}")]
    Kustomization {
        /// Its path in the repository, such as `base/kustomization.yaml`.
        file: String,
        /// What in it is wrong.
        reason: String,
    },
    /// A kustomization needs what is on a server.
    #[error("{file} names {base}, which is on a server; {why}")]
    RemoteBase {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base, the resource or the chart as it is named there, without what is secret in it.
        base: String,
        /// Why it is not fetched, and what to do.
        why: &'static str,
    },
    /// What a kustomization names on a server is not to be had.
    #[error("{file} names {base}: {reason}")]
    Base {
        /// Path of the kustomization in the repository.
        file: String,
        /// The base or the resource as it is named there, without what is secret in it.
        base: String,
        /// What is wrong with it, what its server said, or who does not permit it.
        reason: String,
    },
    /// A repository has no such chart.
    #[error("the repository {repository} has no chart {chart:?}; it has {}", if known.is_empty() { "none" } else { known })]
    NoSuchChart {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// Names of the first charts that it has, and how many more; may be empty.
        known: String,
    },
    /// A chart has no such version.
    #[error(
        "the repository {repository} has no version {version} of its chart {chart:?}; correct targetRevision, which is a version or a constraint such as 1.*"
    )]
    NoVersion {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The `chart` of the source.
        chart: String,
        /// The `targetRevision`, a version or a constraint; what stands for any where it is empty.
        version: String,
    },
    /// Something else than Helm is to make manifests of a chart.
    #[error("source.chart is made by Helm alone; take source.directory and source.kustomize away")]
    NotOfCharts,
    /// What a chart is to be told makes no sense.
    #[error("chart {chart}: {reason}")]
    Helm {
        /// Its name, or the `path` of its folder.
        chart: String,
        /// What in `source.helm` is wrong.
        reason: String,
    },
    /// A chart needs others.
    #[error(
        "chart {chart} needs the charts {missing}, which are not in its folder charts; {why}run `helm dependency update` there and commit what it brings"
    )]
    Dependencies {
        /// Its name, or the `path` of its folder.
        chart: String,
        /// Their names, and where they are from if that is said.
        missing: String,
        /// Why they are not fetched, up to `or `; empty where nothing says where they are from.
        why: &'static str,
    },
    /// A chart that another one needs is not to be had.
    #[error("chart {chart} needs the chart {missing}: {reason}")]
    Dependency {
        /// Its name, or the `path` of its folder.
        chart: String,
        /// The name of the other one, and where it is from.
        missing: String,
        /// What is wrong with it, what its server said, or who does not permit it.
        reason: String,
    },
    /// What is locked is not what the chart asks for.
    #[error(
        "chart {chart}: its {lock} is out of sync with its dependencies: {reason}; run `helm dependency update` there and commit what it brings"
    )]
    Lock {
        /// Its name, or the `path` of its folder.
        chart: String,
        /// `Chart.lock` or `requirements.lock`.
        lock: &'static str,
        /// Which of the dependencies is another one.
        reason: String,
    },
    /// A file of values is missing.
    #[error(
        "the values file {file:?} is not there: {place} has no file {path}; commit it, correct source.helm, or set ignoreMissingValueFiles"
    )]
    NoValueFile {
        /// The entry of `valueFiles`, as it was written.
        file: String,
        /// The path that it means there.
        path: String,
        /// The commit of a repository, or the chart, where it was looked for.
        place: String,
    },
    /// No file of values is meant.
    #[error(
        "values file glob {pattern:?} matched no files; commit one, correct source.helm.valueFiles, or set ignoreMissingValueFiles"
    )]
    NoMatch {
        /// The entry of `valueFiles`, as it was written.
        pattern: String,
    },
    /// A file is on a server.
    #[error(
        "the values file {file:?} is on a server, and such are not fetched; commit it to a repository, and name that as a source with a ref"
    )]
    RemoteFile {
        /// The address, as it was written.
        file: String,
    },
    /// A file of a source that is not there.
    #[error("the values file {file:?} is of a source with the ref {name:?}, and there is none{}", if known.is_empty() { String::new() } else { format!("; there is {known}") })]
    NoReference {
        /// The entry of `valueFiles`, as it was written: `$values/prod.yaml`.
        file: String,
        /// The `ref` that it names, without `$`.
        name: String,
        /// The refs of the sources there are, each with `$`; may be empty.
        known: String,
    },
    /// A path leads out of the repository.
    #[error("the path {path:?} leads out of the repository")]
    Outside {
        /// The path as it was named, with variables put in.
        path: String,
    },
    /// A symbolic link leads out of the repository.
    #[error("{path} is a link to {target:?}, which is outside of the repository")]
    Link {
        /// Path of the link in the repository.
        path: String,
        /// What the link holds.
        target: String,
    },
    /// A symbolic link leads nowhere.
    #[error("{path} is a link to {target:?}, where no file is")]
    DeadLink {
        /// Path of the link in the repository.
        path: String,
        /// Path where it leads to, in the repository.
        target: String,
    },
    /// The manifests would not be complete.
    #[error("{path} is a submodule; submodules are not supported yet, so its manifests would be missing")]
    Submodule {
        /// Its path in the repository.
        path: String,
    },
    /// There is more than anybody reads.
    #[error("path {path:?} has more than {limit} {what}")]
    Limit {
        /// The `path` of the source, or a folder below it.
        path: String,
        /// The highest number that is read.
        limit: u64,
        /// What was counted: `bytes of manifests`, `files and folders` …
        what: &'static str,
    },
    /// A pattern cannot be read.
    #[error("the pattern {pattern:?} cannot be used: {reason}")]
    Pattern {
        /// The pattern, as it was written.
        pattern: String,
        /// What about it is wrong.
        reason: &'static str,
    },
    /// The repository could not be read.
    #[error("the repository {repository} cannot be read: {reason}")]
    Read {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The Git library's words, with their causes.
        reason: String,
    },
    /// What Git LFS keeps of the repository could not be had.
    #[error(transparent)]
    Lfs(#[from] crate::lfs::LfsError),
    /// A folder could not be committed.
    #[error("{} cannot be committed: {reason}", folder.display())]
    Write {
        /// The folder on this machine.
        folder: PathBuf,
        /// In the words of the system or of the Git library.
        reason: String,
    },
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
