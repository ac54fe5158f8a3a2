//! Renders an Application's manifests for a destination. Queries the cluster's capabilities only if a chart
//! may need them.

use tidegate_application::sources::Sources;
use tidegate_cluster::ClusterError;
use tidegate_model::argo::Application;
use tidegate_model::{Object, ObjectKey};
use tidegate_planner::Target;
use tidegate_source::{CapabilitiesQuery, ClusterCapabilities, FailureCause};

use super::destinations::{DestinationError, ResolvedDestination};
use super::fetched_dependencies::RenderContext;
use super::manifests::{RenderedManifests, SourceProblem};
use super::shared_state::SharedState;

/// Source type that a comparison reports for a chart.
const HELM_TYPE: &str = "Helm";

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
