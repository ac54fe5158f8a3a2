//! Renders an Application's manifests for a destination. Queries the cluster's capabilities only if a chart
//! may need them.

use std::sync::Arc;

use tidegate_application::sources::Sources;
use tidegate_cluster::ClusterError;
use tidegate_model::argo::Application;
use tidegate_model::{Digest, Object, ObjectKey};
use tidegate_planner::Target;
use tidegate_planner::manifests::{self, parse};
use tidegate_source::{
    CapabilitiesQuery, ClusterCapabilities, FailureCause, File, LocatedSource, Origin, ReferencedSource,
    RenderInputs, SourceError, UsedDependency,
};

use super::files::{FileKind, classify};
use super::source_revisions::SourceRevision;
use super::{Manifests, SourceProblem};
use crate::destinations::{DestinationError, ResolvedDestination};
use crate::fetched_dependencies::RenderContext;
use crate::shared_state::SharedState;

/// Type of a source without manifests, which only provides files for other sources.
const REFERENCE_TYPE: &str = "Directory";
/// Source type that a comparison reports for a chart.
const HELM_TYPE: &str = "Helm";

/// Combined manifests of all sources.
pub struct RenderedManifests {
    /// Rendered manifests.
    pub targets: Arc<Vec<Target>>,
    /// Type of each source.
    pub types: Vec<String>,
    /// Dependencies that were fetched in addition to the sources.
    pub fetched: Vec<UsedDependency>,
}

/// Error for manifests that couldn't be rendered.
pub struct RenderError {
    pub message: String,
    /// True if a chart needs the capabilities of an unresponsive cluster, so rendering may succeed later.
    pub is_cluster_unreachable: bool,
    cause: FailureCause,
}

impl RenderError {
    fn new(SourceProblem { words, cause }: SourceProblem, is_cluster_unreachable: bool) -> Self {
        let cause = if is_cluster_unreachable { FailureCause::Environment } else { cause };
        Self { message: words, is_cluster_unreachable, cause }
    }
}

impl From<RenderError> for String {
    fn from(error: RenderError) -> Self {
        error.message
    }
}

impl SharedState {
    /// Returns the context for rendering an Application at a destination, without data from its cluster.
    fn render_context(&self, application: &Application, place: &ResolvedDestination) -> RenderContext {
        self.render_context_in(application, &place.namespace)
    }

    /// Returns the context for rendering an Application whose objects are in this namespace, without data
    /// from its cluster.
    fn render_context_in(&self, application: &Application, namespace: &str) -> RenderContext {
        RenderContext::new(&self.projects, application, namespace)
    }

    /// Calls `make` to render an Application's content for a destination. If the result turns out to depend
    /// on the cluster's capabilities, calls it again with them. If `ignores_cache` is true, discards the cached
    /// capabilities first.
    pub async fn render<T, M: Future<Output = Result<T, SourceProblem>>>(
        &self,
        application: &Application,
        place: &ResolvedDestination,
        ignores_cache: bool,
        make: impl Fn(RenderContext) -> M,
    ) -> Result<T, RenderError> {
        let context = self.render_context(application, place);
        if !can_be_chart(application) {
            let question = CapabilitiesQuery::default();
            let manifests =
                make(context.with_cluster(ClusterCapabilities::NotQueried(question.clone()))).await;
            if !question.is_requested() {
                return manifests.map_err(|problem| RenderError::new(problem, false));
            }
        }
        let view = self.watches.discovery(place);
        if ignores_cache {
            view.invalidate();
        }
        let question = CapabilitiesQuery::default();
        let served = view.capabilities(place.cluster.as_ref()).await;
        let is_silent = served.as_ref().is_err_and(|error| error.kind.is_transient());
        let unknown = |error: ClusterError| ClusterCapabilities::Unknown(error.to_string(), question.clone());
        let manifests =
            make(context.with_cluster(served.map_or_else(unknown, ClusterCapabilities::Known))).await;
        manifests.map_err(|problem| RenderError::new(problem, is_silent && question.is_requested()))
    }

    /// Renders an Application's manifests for a destination.
    pub async fn render_manifests(
        &self,
        application: &Application,
        place: &ResolvedDestination,
        sources: &Sources,
        revisions: &[String],
    ) -> Result<RenderedManifests, RenderError> {
        let make = |context| self.manifests.targets(sources, revisions, context, false);
        self.render(application, place, false, make).await
    }

    /// Renders the manifests of an Application whose destination can't be used. This only works if no chart
    /// needs the cluster's capabilities.
    async fn manifests_without_place(
        &self,
        application: &Application,
        none: &DestinationError,
        sources: &Sources,
        revisions: &[String],
    ) -> Result<RenderedManifests, RenderError> {
        let question = CapabilitiesQuery::default();
        let unknown = ClusterCapabilities::Unknown(none.to_string(), question.clone());
        let context = self.render_context_in(application, &application.spec.destination.namespace);
        let context = context.with_cluster(unknown);
        let manifests = self.manifests.targets(sources, revisions, context, false).await;
        manifests.map_err(|problem| RenderError::new(problem, question.is_requested()))
    }
}

impl Manifests {
    /// Returns keys for the sources' manifests at these revisions. Different manifests have different keys.
    pub async fn manifest_keys(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        context: RenderContext,
    ) -> Result<Vec<Digest>, SourceProblem> {
        let (this, project) = (Arc::clone(self), context.purpose.project.clone());
        self.with_sources(sources, &project, revisions.to_vec(), move |sources| {
            let making = this.render_inputs(sources, &context)?;
            let has_manifests = |one: &&SourceRevision| !one.is_reference_only();
            let locate = |one: &SourceRevision| {
                one.with_error_context(|| {
                    let repository =
                        this.repositories.origin(&one.source, one.address_context(&this.base))?;
                    Ok::<_, SourceError>(repository.locate(&one.source, &one.revision, &making)?.key())
                })
            };
            let keys = sources.iter().filter(has_manifests).map(locate).collect::<Result<_, SourceProblem>>();
            this.record_dependencies(&context, &making, keys.is_ok());
            keys
        })
        .await
    }

    /// Records the dependencies that were fetched in addition to the sources, so that they are observed too.
    fn record_dependencies(
        &self,
        context: &RenderContext,
        making: &RenderInputs,
        is_whole: bool,
    ) -> Vec<UsedDependency> {
        let used =
            making.dependencies.as_ref().map(|fetching| fetching.used_dependencies()).unwrap_or_default();
        self.fetched.record(&context.key, used.clone(), is_whole);
        used
    }

    /// Returns the input for rendering.
    fn render_inputs(
        &self,
        sources: &[SourceRevision],
        context: &RenderContext,
    ) -> Result<RenderInputs, SourceProblem> {
        let fetching = context.dependency_fetcher(&self.repositories, &self.allowed);
        let mut making = RenderInputs {
            tools: self.tools.clone(),
            purpose: context.purpose.clone(),
            dependencies: Some(Arc::new(fetching)),
            ..RenderInputs::default()
        };
        for one in sources.iter().filter(|one| !one.source.reference.is_empty()) {
            let repository = one.with_error_context(|| {
                self.repositories.open(&one.source.repo_url, one.address_context(&self.base))
            })?;
            let referred = ReferencedSource { repository, commit: one.revision.clone() };
            making.referenced.insert(one.source.reference.clone(), referred);
        }
        Ok(making)
    }

    /// Returns an Application's manifests at these revisions, in source order.
    pub async fn targets(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        context: RenderContext,
        ignores_cache: bool,
    ) -> Result<RenderedManifests, SourceProblem> {
        let (this, project) = (Arc::clone(self), context.purpose.project.clone());
        self.with_sources(sources, &project, revisions.to_vec(), move |sources| {
            let making = this.render_inputs(sources, &context)?;
            let read = |one: &SourceRevision| {
                one.with_error_context(|| this.read_source(one, &making, ignores_cache))
            };
            let found = sources.iter().map(read).collect::<Result<Vec<_>, SourceProblem>>();
            let fetched = this.record_dependencies(&context, &making, found.is_ok());
            let (all, types): (Vec<_>, Vec<_>) = found?.into_iter().unzip();
            let types = types.into_iter().map(str::to_owned).collect();
            let targets = match all.as_slice() {
                [only] => Arc::clone(only),
                several => Arc::new(several.iter().flat_map(|one| one.iter().cloned()).collect()),
            };
            Ok(RenderedManifests { targets, types, fetched })
        })
        .await
    }

    fn read_source(
        &self,
        part: &SourceRevision,
        making: &RenderInputs,
        ignores_cache: bool,
    ) -> Result<(Arc<Vec<Target>>, &'static str), SourceProblem> {
        if part.is_reference_only() {
            return Ok((Arc::default(), REFERENCE_TYPE));
        }
        let SourceRevision { source, revision, .. } = part;
        let repository = self.repositories.origin(source, part.address_context(&self.base))?;
        let located = repository.locate(source, revision, making)?;
        let kind = located.source_type();
        if let Some(known) = self.parsed.get(located.key()).filter(|_| !ignores_cache) {
            return Ok((known, kind));
        }
        let (mut targets, mut problems) = (Vec::new(), Vec::new());
        let files = self.manifest_files(&repository, &located, making, ignores_cache)?;
        for file in files.iter() {
            match classify(&file.path, &file.content) {
                FileKind::LfsPointer => {
                    problems.push(format!(
                        "{}: the file is a Git LFS pointer, not a manifest; set enableLfs: \"true\" in the repository's Secret to \
                         fetch its content",
                        file.path
                    ));
                    continue;
                }
                // Everything that a rendering program outputs is treated as a manifest.
                FileKind::Skipped if !located.is_rendered() => continue,
                FileKind::Skipped | FileKind::Manifest => {}
            }
            match parse(&file.path, &file.content, &manifests::Limits::default()) {
                Ok(found) => targets.extend(found),
                Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
            }
        }
        if !problems.is_empty() {
            return Err(SourceProblem { words: problems.join("; "), cause: FailureCause::Content });
        }
        let targets = Arc::new(targets);
        self.parsed.put(located.key(), Arc::clone(&targets), total_size(&files));
        Ok((targets, kind))
    }

    /// Returns the manifest files. Uses cached program output if possible.
    fn manifest_files(
        &self,
        repository: &Origin,
        located: &LocatedSource,
        making: &RenderInputs,
        ignores_cache: bool,
    ) -> Result<Arc<Vec<File>>, SourceError> {
        let is_rendered = located.is_rendered();
        if let Some(known) = self.rendered.get(located.key()).filter(|_| is_rendered && !ignores_cache) {
            return Ok(known);
        }
        let files = Arc::new(repository.read_manifests(located, making)?);
        if is_rendered {
            self.rendered.put(located.key(), Arc::clone(&files), total_size(&files));
        }
        Ok(files)
    }
}

fn total_size(files: &[File]) -> usize {
    files.iter().map(|file| file.path.len().saturating_add(file.content.len())).sum()
}

/// Returns true if an Application has the same manifests at two sets of source revisions.
///
/// # Errors
///
/// Returns the reason why the manifests can't be compared now, for example that a repository is unreachable,
/// that a program failed, or that a chart needs the capabilities of an unresponsive cluster.
pub async fn have_same_manifests(
    shared: &SharedState,
    application: &Application,
    before: &[String],
    now: &[String],
) -> Result<bool, String> {
    let sources = Sources::from_application(application);
    let destination = &application.spec.destination;
    // The same inputs produce the same manifests, regardless of the cluster's capabilities.
    let parts = shared.render_context_in(application, &destination.namespace);
    let keys = |revisions| shared.manifests.manifest_keys(&sources, revisions, parts.clone());
    if let (Ok(before), Ok(now)) = (keys(before).await, keys(now).await)
        && before == now
    {
        return Ok(true);
    }
    let place = shared.destinations.resolve(destination);
    let before = render(shared, application, &place, &sources, before).await;
    // Render these revisions last, because only the dependencies of the last rendering remain recorded.
    let now = render(shared, application, &place, &sources, now).await;
    match (before, now) {
        (Ok(before), Ok(now)) => Ok(have_same_objects(&before.targets, &now.targets)),
        (before, now) => {
            check_failures([before.err(), now.err()].into_iter().flatten().collect()).map(|()| false)
        }
    }
}

async fn render(
    shared: &SharedState,
    application: &Application,
    place: &Result<ResolvedDestination, DestinationError>,
    sources: &Sources,
    revisions: &[String],
) -> Result<RenderedManifests, RenderError> {
    match place {
        Ok(place) => shared.render_manifests(application, place, sources, revisions).await,
        Err(none) => shared.manifests_without_place(application, none, sources, revisions).await,
    }
}

/// Checks that rendering failed because of the revisions themselves. The manifests of such revisions
/// certainly differ from manifests that can be rendered. If a program or server rejects only one of two
/// revisions, that revision is the cause.
fn check_failures(failures: Vec<RenderError>) -> Result<(), String> {
    let is_single = failures.len() == 1;
    let is_certain = |one: &RenderError| match one.cause {
        FailureCause::Content => true,
        FailureCause::Refusal => is_single,
        FailureCause::Environment => false,
    };
    failures.into_iter().find(|one| !is_certain(one)).map_or(Ok(()), |uncertain| Err(uncertain.message))
}

/// Returns true if two lists of manifests contain the same objects, regardless of the files they are in.
pub fn have_same_objects(one: &[Target], other: &[Target]) -> bool {
    one.len() == other.len() && objects_by_key(one) == objects_by_key(other)
}

fn objects_by_key(targets: &[Target]) -> Vec<(ObjectKey, &Object)> {
    let mut objects: Vec<_> = targets.iter().map(|one| (one.object.key(), &one.object)).collect();
    objects.sort_by(|(one, _), (other, _)| one.cmp(other));
    objects
}

/// Returns true if a source is declared as a chart, or was a chart in the last comparison.
fn can_be_chart(application: &Application) -> bool {
    let is_chart = application.sources().iter().any(|one| one.helm.is_some() || !one.chart.is_empty());
    let status = &application.status;
    is_chart || status.source_type == HELM_TYPE || status.source_types.iter().any(|one| one == HELM_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certain_failures_are_a_difference() {
        use FailureCause::{Content, Environment, Refusal};
        let failures = |causes: &[FailureCause]| {
            let failure = |cause: &FailureCause| {
                RenderError::new(SourceProblem { words: format!("{cause:?}"), cause: *cause }, false)
            };
            causes.iter().map(failure).collect::<Vec<_>>()
        };
        for (causes, unknown) in [
            (&[Content][..], None),
            (&[Refusal], None),
            (&[Environment], Some("Environment")),
            (&[Content, Content], None),
            (&[Content, Refusal], Some("Refusal")),
            (&[Refusal, Refusal], Some("Refusal")),
            (&[Content, Environment], Some("Environment")),
        ] {
            assert_eq!(check_failures(failures(causes)).err().as_deref(), unknown, "{causes:?}");
        }
        let away = RenderError::new(SourceProblem { words: "no response".to_owned(), cause: Content }, true);
        assert_eq!(check_failures(vec![away]), Err("no response".to_owned()));
    }
}
