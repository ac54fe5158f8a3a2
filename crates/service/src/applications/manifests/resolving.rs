//! What revisions mean: by the last look at each repository, or by a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_application::sources::Sources;
use tidegate_model::argo::Application;
use tidegate_source::{Address, SourceError, Used};

use super::Manifests;
use super::parts::{Part, Problem, parts};
use crate::applications::projects::name_of;
use crate::applications::store::AppKey;

impl Manifests {
    /// What revisions of the sources of an application mean, one for each, by the last look at their repositories or by a new one,
    /// which is one at what else was fetched for it as well; and the repositories whose names have moved, as this look has found,
    /// whatever else is wrong.
    pub async fn resolve(
        self: &Arc<Self>,
        application: &Application,
        (sources, revisions): (&Sources, Vec<String>),
        look: bool,
    ) -> (Result<Vec<String>, String>, Vec<Address>) {
        let beside = if look { self.fetched.of(&AppKey::of(application)) } else { Vec::new() };
        let this = Arc::clone(self);
        let resolving = self.for_each((sources, name_of(application)), revisions, move |sources| {
            if look {
                this.read_credentials();
            }
            let (mut looked, mut moved) = (BTreeSet::new(), Vec::new());
            let resolve = |one: &Part| one.try_to(|| this.resolve_one(one, look, (&mut looked, &mut moved)));
            let resolved = sources.iter().map(resolve).collect::<Result<Vec<_>, _>>();
            if resolved.is_ok() {
                moved.extend(beside.into_iter().filter_map(|used| this.look_beside(used, &mut looked)));
            }
            Ok((resolved, moved))
        });
        resolving.await.unwrap_or_else(|fault| (Err(fault), Vec::new()))
    }

    /// What the sources of many applications mean, each with its project, in the revisions they ask for: by the last look at each repository, or by a
    /// new one, which all of them are of; and the repositories whose names have moved.
    pub async fn resolve_all(
        self: &Arc<Self>,
        all: Vec<(Sources, String)>,
        look: bool,
    ) -> (Vec<Result<Vec<String>, String>>, Vec<Address>) {
        let (this, count) = (Arc::clone(self), all.len());
        let resolve = move || {
            if look {
                this.read_credentials();
            }
            let (mut looked, mut known, mut moved) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
            let mut resolve = |one: &Part| {
                let source = &one.source;
                let asked = [&source.repo_url, &source.chart, &one.revision].map(String::clone);
                let asked = (asked, Arc::clone(&one.project));
                let resolved = known.entry(asked).or_insert_with(|| {
                    let resolved = this.resolve_one(one, look, (&mut looked, &mut moved));
                    resolved.map_err(|error| error.to_string())
                });
                one.try_to(|| resolved.clone().map_err(Problem))
            };
            let resolve_each = |(sources, project): &(Sources, String)| {
                parts((sources, project), sources.wanted())
                    .iter()
                    .map(&mut resolve)
                    .collect::<Result<Vec<_>, _>>()
            };
            let resolved = all.iter().map(resolve_each).collect();
            (resolved, moved)
        };
        let fault =
            |error| (vec![Err(format!("reading the repositories met a fault: {error}")); count], Vec::new());
        tokio::task::spawn_blocking(resolve).await.unwrap_or_else(fault)
    }

    /// Looks at what was fetched beside the sources, once; where it is, if that has changed. What is wrong with it is told to
    /// whoever needs it.
    fn look_beside(&self, used: Used, looked: &mut BTreeSet<Address>) -> Option<Address> {
        let known = self.repositories.find(&used.address)?;
        if known.is_fixed(&used.source.target_revision) || !looked.insert(used.address.clone()) {
            return None;
        }
        known.look_again().then_some(used.address)
    }

    fn resolve_one(
        &self,
        part: &Part,
        look: bool,
        (looked, moved): (&mut BTreeSet<Address>, &mut Vec<Address>),
    ) -> Result<String, SourceError> {
        let Part { source, revision, .. } = part;
        let repository = self.repositories.origin(source, part.home(&self.base))?;
        // Sources of one repository are of one look.
        let look = look && !repository.is_fixed(revision) && looked.insert(repository.address().clone());
        if look && repository.look()? {
            moved.push(repository.address().clone());
        }
        repository.resolve(source, revision)
    }
}
