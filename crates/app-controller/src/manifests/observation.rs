//! Observes repositories, and resolves revisions based on the last or a new observation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_application::AppKey;
use tidegate_application::project::project_name;
use tidegate_application::sources::Sources;
use tidegate_model::argo::Application;
use tidegate_source::{Address, OpenSource, SourceError, UsedDependency};

use super::Manifests;
use super::source_revisions::{SourceProblem, SourceRevision, pair_revisions};
use crate::shared_state::SharedState;

/// Observation used to resolve revisions to commits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RevisionLookup {
    /// The last observation of the repository.
    LastObservation,
    /// A new observation. All Applications that use a changed repository are notified.
    NewObservation,
    /// A new observation for an Application's own comparison. All other Applications that use a changed
    /// repository are notified.
    OwnComparison,
}

impl SharedState {
    /// Resolves the revisions of an Application's sources to commits.
    pub async fn resolve_revisions(
        &self,
        application: &Application,
        sources: &Sources,
        revisions: Vec<String>,
        lookup: RevisionLookup,
    ) -> Result<Vec<String>, String> {
        let refresh = lookup != RevisionLookup::LastObservation;
        let (resolved, addresses) = self.manifests.resolve(application, sources, revisions, refresh).await;
        let but = (lookup == RevisionLookup::OwnComparison).then(|| AppKey::of(application));
        self.notify_changed_repositories(addresses, but);
        resolved
    }
}

impl Manifests {
    /// Observes every repository once, or only the repository at `only`. Returns the repositories whose refs
    /// or readability have changed.
    pub async fn observe(self: &Arc<Self>, only: Option<Address>) -> Vec<Address> {
        let this = Arc::clone(self);
        let look = move || {
            this.read_credentials();
            let is_meant = |one: &OpenSource| only.as_ref().is_none_or(|only| one.address() == only);
            let has_other_keys = only.is_none() && this.have_keys_changed.swap(false, Ordering::Relaxed);
            let is_news = |one: &OpenSource| one.observe_availability() || has_other_keys;
            let all =
                this.repositories.open_sources().into_iter().filter(|one| is_meant(one) && is_news(one));
            all.map(|repository| repository.address().clone()).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Resolves the revisions of an Application's sources to commits, based on the last or a new observation
    /// of their repositories. A new observation includes fetched dependencies. Also returns the repositories
    /// whose refs have changed, even if the revisions can't be resolved.
    async fn resolve(
        self: &Arc<Self>,
        application: &Application,
        sources: &Sources,
        revisions: Vec<String>,
        refresh: bool,
    ) -> (Result<Vec<String>, String>, Vec<Address>) {
        let beside = if refresh { self.fetched.get(&AppKey::of(application)) } else { Vec::new() };
        let this = Arc::clone(self);
        let resolving = self.with_sources(sources, project_name(application), revisions, move |sources| {
            if refresh {
                this.read_credentials();
            }
            let (mut looked, mut moved) = (BTreeSet::new(), Vec::new());
            let resolve = |one: &SourceRevision| {
                one.with_error_context(|| this.resolve_source(one, refresh, &mut looked, &mut moved))
                    .map_err(String::from)
            };
            let resolved = sources.iter().map(resolve).collect::<Result<Vec<_>, _>>();
            if resolved.is_ok() {
                moved
                    .extend(beside.into_iter().filter_map(|used| this.observe_dependency(used, &mut looked)));
            }
            Ok((resolved, moved))
        });
        resolving.await.unwrap_or_else(|fault| (Err(fault), Vec::new()))
    }

    /// Resolves the source revisions of many Applications, each with its project. With `refresh`, observes
    /// all repositories again; otherwise, uses their last observation. Also returns the repositories whose
    /// refs have changed.
    pub async fn resolve_all(
        self: &Arc<Self>,
        all: Vec<(Sources, String)>,
        refresh: bool,
    ) -> (Vec<Result<Vec<String>, String>>, Vec<Address>) {
        let (this, count) = (Arc::clone(self), all.len());
        let resolve = move || {
            if refresh {
                this.read_credentials();
            }
            let (mut looked, mut known, mut moved) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
            let mut resolve = |one: &SourceRevision| {
                let source = &one.source;
                let request = [&source.repo_url, &source.chart, &one.revision].map(String::clone);
                let request = (request, Arc::clone(&one.project));
                let resolved = known.entry(request).or_insert_with(|| {
                    let resolved = this.resolve_source(one, refresh, &mut looked, &mut moved);
                    resolved.map_err(|error| error.to_string())
                });
                one.with_error_context(|| resolved.clone().map_err(SourceProblem::from)).map_err(String::from)
            };
            let resolve_each = |(sources, project): &(Sources, String)| {
                pair_revisions(sources, project, sources.target_revisions())
                    .iter()
                    .map(&mut resolve)
                    .collect::<Result<Vec<_>, _>>()
            };
            let resolved = all.iter().map(resolve_each).collect();
            (resolved, moved)
        };
        let fault = |error| {
            (
                vec![Err(format!("reading the repositories failed with an internal error: {error}")); count],
                Vec::new(),
            )
        };
        tokio::task::spawn_blocking(resolve).await.unwrap_or_else(fault)
    }

    /// Observes a dependency once. Returns its address if it has changed. Errors are reported to the
    /// Applications that use the dependency.
    fn observe_dependency(&self, used: UsedDependency, looked: &mut BTreeSet<Address>) -> Option<Address> {
        let known = self.repositories.find_open(&used.address)?;
        if known.is_immutable(&used.source.target_revision) || !looked.insert(used.address.clone()) {
            return None;
        }
        known.observe_availability().then_some(used.address)
    }

    fn resolve_source(
        &self,
        part: &SourceRevision,
        refresh: bool,
        looked: &mut BTreeSet<Address>,
        moved: &mut Vec<Address>,
    ) -> Result<String, SourceError> {
        let SourceRevision { source, revision, .. } = part;
        let repository = self.repositories.origin(source, part.address_context(&self.base))?;
        // Sources from the same repository share an observation.
        let refresh =
            refresh && !repository.is_immutable(revision) && looked.insert(repository.address().clone());
        if refresh && repository.observe()? {
            moved.push(repository.address().clone());
        }
        repository.resolve(source, revision)
    }
}
