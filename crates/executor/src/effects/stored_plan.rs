//! Stored plans, executed later exactly as stored, or not at all.
//!
//! A stored plan contains the request, the manifests as read, the plan, the manifests as written, and the
//! observed objects in the cluster. The hash covers all of them, so approving a hash approves every byte of
//! the plan. Before executing it, the operation reads the cluster and makes a new plan with the original
//! timestamp, which must equal the stored plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Action, Digest, Object, ObjectKey, Plan, PlanApproval, SyncRequest, Timestamp};
use tidegate_oplog::ApplicationInventory;
use tidegate_planner::{Comparer, Difference, PlanResult, StoredObservation, stored_observations};

use super::comparison::{ComparisonPurpose, index_by_key};
use super::diff::{self, Differences, NO_OPERATION, ObjectDifference, ObjectStatus};
use super::pinned_plan::PinnedPlan;
use super::planning::{PlanError, mask_plan, prepare_with_live};
use super::predicted_rejections::predict_rejections;
use super::targets::Targets;

/// Format version of stored plans. Other versions are rejected.
const FORMAT_VERSION: u32 = 1;

/// A plan with all its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredPlan {
    /// Format version of this document.
    format: u32,
    /// Creation time, which also determines the generated hook names.
    pub made_at: Timestamp,
    /// The request.
    pub request: SyncRequest,
    /// Manifests as read, and gates.
    pub targets: Targets,
    /// The ordered plan.
    pub plan: Plan,
    /// Complete manifests as written.
    pub manifests: Vec<Object>,
    /// Observations of the affected objects.
    pub sights: Vec<StoredObservation>,
}

/// Error for a document that isn't a valid stored plan.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPlan {
    /// The document isn't JSON with the expected structure.
    #[error("the file is not a stored plan: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another version of this program wrote the document.
    #[error(
        "the plan has format {found}, but this version reads format {FORMAT_VERSION}; create the plan again \
         with this version"
    )]
    UnsupportedFormat {
        /// Format version found in the document.
        found: u32,
    },
    /// The document was modified after its creation.
    #[error(
        "the plan was modified after it was created: its recorded hash is {said}, but its content has hash \
         {found}; create the plan again"
    )]
    Modified {
        /// Hash stated in the document.
        said: Digest,
        /// Hash computed from the content.
        found: Digest,
    },
    /// The plan refers to missing content.
    #[error("the plan is damaged: a task refers to manifest {0}, which is missing; create the plan again")]
    Damaged(usize),
}

/// The file: a hash, and the content it covers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPlanDocument<P> {
    hash: String,
    plan: P,
}

impl StoredPlan {
    /// Creates a plan for a cluster. Returns the plan with all its inputs, and a version for display with all
    /// Secret values masked. Doesn't write to the cluster.
    pub async fn create(
        cluster: &dyn Cluster,
        request: SyncRequest,
        targets: Targets,
        made_at: Timestamp,
        inventory: Option<&ApplicationInventory>,
    ) -> Result<(Self, PlanResult), CallError> {
        let mask = targets.mask();
        let hidden = |mut error: CallError| {
            mask.apply(&mut error.message);
            error
        };
        let own_targets = Targets { pinned: None, last_runs: Vec::new(), ..targets.clone() };
        let (prepared, live) =
            match prepare_with_live(cluster, NO_OPERATION, &request, targets, made_at, inventory).await {
                Ok(prepared) => prepared,
                Err(PlanError::Call(error)) => return Err(hidden(error)),
                Err(PlanError::Outdated(moved)) => return Err(CallError::permanent(moved.to_string())),
            };
        let mut planned = prepared.planned;
        let refusals = predict_rejections(cluster, NO_OPERATION, &request, &planned, &live).await;
        planned.plan.warnings.extend(refusals);
        let planned = mask_plan(planned, &mask);
        let (plan, manifests) = (planned.plan.clone(), planned.manifests.clone());
        let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
        let by_key = index_by_key(&live);
        let sights = stored_observations(&comparer, &plan, |key| by_key.get(key).map(|live| live.unpack()));
        let stored =
            Self { format: FORMAT_VERSION, made_at, request, targets: own_targets, plan, manifests, sights };
        Ok((stored, planned))
    }

    /// Returns the SHA-256 of the whole content.
    pub fn hash(&self) -> Digest {
        let mut hasher = Sha256::new();
        // Writing to a hasher can't fail, and the content is plain data with string keys.
        let _ = serde_json::to_writer(HashWriter(&mut hasher), self);
        Digest(hasher.finalize().into())
    }

    /// Returns the changes that the plan would make to its objects in the current cluster, in the plan's
    /// order. Omits hooks and unchanged objects, and masks all Secret values. Doesn't write to the cluster.
    pub async fn differences(
        &self,
        cluster: &dyn Cluster,
        inventory: Option<&ApplicationInventory>,
    ) -> Result<Vec<ObjectDifference>, CallError> {
        let (question, targets) = (ComparisonPurpose::Sync, self.targets.clone());
        // Use the plan's creation time: generated names depend on it.
        let comparing = diff::diff(cluster, question, &self.request, targets, self.made_at, inventory);
        let Differences { objects, .. } = comparing.await?;
        let tasks = self.plan.tasks.iter().filter(|task| !task.is_hook());
        let actions: BTreeMap<ObjectKey, Action> = tasks.map(|task| (task.key(), task.action)).collect();
        let planned = |one: ObjectDifference| match actions.get(&one.task.key())? {
            Action::PruneSkipped => None,
            Action::Unchanged => {
                let difference = Difference::default();
                Some(ObjectDifference { status: ObjectStatus::Same, difference, refused: None, ..one })
            }
            _ => Some(one),
        };
        Ok(objects.into_iter().filter_map(planned).collect())
    }

    /// Serializes the plan to the content of a file.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text =
            serde_json::to_vec_pretty(&StoredPlanDocument { hash: self.hash().to_string(), plan: self })?;
        text.push(b'\n');
        Ok(text)
    }

    /// Parses a document. Returns an error if it was modified after its creation.
    pub fn from_json(text: &[u8]) -> Result<Self, InvalidPlan> {
        #[derive(Deserialize)]
        struct FormatProbe {
            plan: Format,
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let FormatProbe { plan: Format { format } } = serde_json::from_slice(text)?;
        if format != FORMAT_VERSION {
            return Err(InvalidPlan::UnsupportedFormat { found: format });
        }
        let StoredPlanDocument { hash, plan } = serde_json::from_slice::<StoredPlanDocument<Self>>(text)?;
        let said: Digest = hash.parse().map_err(serde::de::Error::custom).map_err(InvalidPlan::Malformed)?;
        let found = plan.hash();
        if said != found {
            return Err(InvalidPlan::Modified { said, found });
        }
        let named = plan.plan.tasks.iter().filter_map(|task| task.manifest);
        match named.map(|manifest| manifest.index()).find(|index| *index >= plan.manifests.len()) {
            Some(index) => Err(InvalidPlan::Damaged(index)),
            None => Ok(plan),
        }
    }

    /// Returns the request and targets for an operation that must execute exactly this plan.
    pub fn pin(self, approvals: Vec<PlanApproval>, allow_drift: bool) -> (SyncRequest, Targets) {
        let hash = self.hash();
        let Self { made_at, request, targets, plan, manifests, sights, .. } = self;
        let pinned = PinnedPlan { hash, made_at, plan, manifests, sights, allow_drift, approvals };
        (request, Targets { pinned: Some(Box::new(pinned)), ..targets })
    }
}

struct HashWriter<'h>(&'h mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
