//! Revisions of an Application with the same manifests. A commit to other files is a new revision for every
//! Application in the repository, but not a new rollout target.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_application::supersede::ManifestComparison;
use tidegate_applicationset::rollout::target_revisions;
use tidegate_lifecycle::rollout::Target;
use tidegate_model::Digest;
use tidegate_model::argo::Application;

use tidegate_app_controller::{SharedState, have_same_manifests};

/// A pair of compared revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RevisionPair {
    /// Digest of the generated spec.
    spec: Digest,
    /// Revisions of a rollout's target.
    target: Vec<String>,
    /// Revisions compared with the target.
    other: Vec<String>,
    is_same: bool,
}

/// Revisions with the same manifests, by Application. Clones share their state.
#[derive(Clone, Default)]
pub struct RevisionEquivalence(Arc<Mutex<BTreeMap<String, Vec<RevisionPair>>>>);

/// An Application that needs a target.
pub struct TargetCandidate<'a> {
    /// The generated Application.
    pub application: &'a Application,
    /// Digest of the generated spec.
    pub spec: Digest,
    /// Current revisions of the sources.
    pub newest: Vec<String>,
    /// The Application's target in the ApplicationSet's newest rollout.
    pub known: Option<&'a Target>,
    /// Deployed revisions.
    pub deployed: Option<&'a [String]>,
    /// True if the ApplicationSet's newest rollout has finished.
    pub is_ended: bool,
}

/// Target chosen for an Application.
#[derive(Debug, PartialEq, Eq)]
pub struct ChosenTarget {
    pub revisions: Vec<String>,
    /// True if a comparison found more revisions with the same manifests, which may change the meaning of
    /// observations.
    pub has_new_pairs: bool,
    /// Reason the manifests couldn't be compared with the target's yet.
    pub awaited: Option<String>,
}

impl RevisionEquivalence {
    fn lock_pairs(&self) -> MutexGuard<'_, BTreeMap<String, Vec<RevisionPair>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps only the Applications that `is_meant` accepts.
    pub fn retain(&self, is_meant: impl Fn(&str) -> bool) {
        self.lock_pairs().retain(|name, _| is_meant(name));
    }

    /// Chooses an Application's target. The newest rollout's target is kept until the newest revisions
    /// definitely have different manifests.
    ///
    /// # Errors
    ///
    /// Returns an error if Tidegate can't determine whether the deployed and the target's manifests are the
    /// same. Otherwise, a finished rollout could start again.
    pub async fn choose_target(
        &self,
        shared: &Arc<SharedState>,
        candidate: TargetCandidate<'_>,
    ) -> Result<ChosenTarget, String> {
        let TargetCandidate { application, spec, newest, known, deployed, is_ended } = candidate;
        let name = &application.metadata.name;
        let before = self.lock_pairs().get(name).cloned().unwrap_or_default();
        let (mut pairs, mut awaited) = (Vec::new(), None);
        let mut revisions = newest;
        let known = known.filter(|known| known.spec == spec).map(|known| &known.revisions);
        if let Some(known) = known {
            let compared =
                match compare_revisions(shared, application, spec, known, &revisions, &before).await {
                    Ok(pair) => {
                        let is_same = pair.is_same;
                        pairs.push(pair);
                        if is_same { ManifestComparison::Same } else { ManifestComparison::Different }
                    }
                    Err(reason) => {
                        awaited = Some(reason);
                        ManifestComparison::Unknown
                    }
                };
            revisions = target_revisions(revisions, known, compared);
        }
        if let Some(deployed) = deployed {
            let replaced = known.filter(|known| **known != revisions);
            for target in replaced.into_iter().chain([&revisions]) {
                match compare_revisions(shared, application, spec, target, deployed, &before).await {
                    Ok(pair) => pairs.push(pair),
                    Err(reason) if is_ended && *target == revisions => return Err(reason),
                    Err(reason) => awaited = awaited.or(Some(reason)),
                }
            }
        }
        // Drop pairs of the same revision, which don't need a comparison.
        pairs.retain(|pair| pair.target != pair.other);
        let has_new_pairs = pairs.iter().any(|pair| pair.is_same && !before.contains(pair));
        self.lock_pairs().insert(name.clone(), pairs);
        Ok(ChosenTarget { revisions, has_new_pairs, awaited })
    }

    /// Replaces the deployed revisions with the target's if their manifests are the same.
    pub fn map_to_target(&self, name: &str, deployed: &mut Target) {
        let all = self.lock_pairs();
        let mut pairs = all.get(name).into_iter().flatten();
        let is_it = |pair: &&RevisionPair| {
            pair.is_same && pair.spec == deployed.spec && pair.other == deployed.revisions
        };
        if let Some(pair) = pairs.find(is_it) {
            deployed.revisions.clone_from(&pair.target);
        }
    }

    /// Returns the target's revisions and all others with the same manifests.
    pub fn revisions_of_target(&self, name: &str, target: &Target) -> Vec<Vec<String>> {
        let all = self.lock_pairs();
        let pairs = all.get(name).into_iter().flatten();
        let is_it = |pair: &&RevisionPair| {
            pair.is_same && pair.spec == target.spec && pair.target == target.revisions
        };
        let others = pairs.filter(is_it).map(|pair| pair.other.clone());
        std::iter::once(target.revisions.clone()).chain(others).collect()
    }
}

/// Compares two revisions, or returns the cached result. Only definite results are cached.
async fn compare_revisions(
    shared: &Arc<SharedState>,
    application: &Application,
    spec: Digest,
    target: &[String],
    other: &[String],
    before: &[RevisionPair],
) -> Result<RevisionPair, String> {
    let is_it = |pair: &&RevisionPair| pair.spec == spec && pair.target == target && pair.other == other;
    if let Some(known) = before.iter().find(is_it) {
        return Ok(known.clone());
    }
    let is_same = target == other || have_same_manifests(shared, application, target, other).await?;
    Ok(RevisionPair { spec, target: target.to_vec(), other: other.to_vec(), is_same })
}
