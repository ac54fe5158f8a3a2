//! Manifests that are made for an application in a place. Its cluster is asked what it serves only where a chart may want to know.

use tidegate_application::sources::Sources;
use tidegate_cluster::ClusterError;
use tidegate_model::argo::Application;
use tidegate_source::{Question, Served};

use super::fetched::For;
use super::manifests::Made;
use super::places::Place;
use super::shared::Shared;

/// What comparisons say of a source that is a chart.
const HELM: &str = "Helm";

/// Why manifests are not there.
pub(crate) struct Unmade {
    pub why: String,
    /// Its cluster does not answer, and a chart has to know what that serves: nobody need change anything.
    pub is_away: bool,
}

impl From<Unmade> for String {
    fn from(unmade: Unmade) -> Self {
        unmade.why
    }
}

impl Shared {
    /// Makes something for an application in a place; once more where it turns out that the cluster is to be asked before. `is_anew`:
    /// nothing that it has said before counts.
    pub async fn make<T, M: Future<Output = Result<T, String>>>(
        &self,
        (application, place): (&Application, &Place),
        is_anew: bool,
        make: impl Fn(For) -> M,
    ) -> Result<T, Unmade> {
        let made_for = self.made_for(application, place);
        if !may_be_chart(application) {
            let question = Question::default();
            let made = make(made_for.in_cluster(Served::Unasked(question.clone()))).await;
            if !question.was_asked() {
                return made.map_err(|why| Unmade { why, is_away: false });
            }
        }
        let view = self.watching.view(place);
        if is_anew {
            view.forget_served();
        }
        let question = Question::default();
        let served = view.capabilities(place.cluster.as_ref()).await;
        let is_silent = served.as_ref().is_err_and(|error| error.kind.is_transient());
        let unknown = |error: ClusterError| Served::Unknown(error.to_string(), question.clone());
        let made = make(made_for.in_cluster(served.map_or_else(unknown, Served::Known))).await;
        made.map_err(|why| Unmade { why, is_away: is_silent && question.was_asked() })
    }

    /// The manifests of an application in a place.
    pub async fn manifests_of(
        &self,
        of: (&Application, &Place),
        sources: &Sources,
        revisions: &[String],
    ) -> Result<Made, Unmade> {
        self.make(of, false, |made_for| self.manifests.targets(sources, revisions, (made_for, false))).await
    }
}

/// Whether a source says that it is a chart, or was one when it was compared last.
fn may_be_chart(application: &Application) -> bool {
    let is_chart = application.sources().iter().any(|one| one.helm.is_some() || !one.chart.is_empty());
    let status = &application.status;
    is_chart || status.source_type == HELM || status.source_types.iter().any(|one| one == HELM)
}
