//! Plans that are kept, to be carried out later as they are or not at all.
//!
//! A kept plan has everything in it: what was asked, the manifests as they were read, the plan, the manifests as they are
//! written, and the objects in the cluster as they were seen. Its hash is that of all of it, so whoever approves a hash
//! approves every byte. When it is carried out the cluster is read and planned once more, as at the moment it was made: the
//! two plans have to be the same.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{
    Action, Digest, LiveObject, Object, ObjectKey, Plan, PlanApproval, SyncRequest, TakenPlan, Timestamp,
};
use tidegate_oplog::Known;
use tidegate_planner::{Comparer, Difference, Drift, Planned, Sight, drift, sights};

use super::comparing::by_key;
use super::diff::{self, Differences, NO_OPERATION, ObjectDifference, ObjectStatus, Question};
use super::planning::{NotPlanned, Targets, masked, prepare_with};

/// The layout of kept plans. One of another layout is refused.
const FORMAT: u32 = 1;
/// So much of what has moved is told.
const TOLD: usize = 10;

/// A plan with all that it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptPlan {
    /// The layout of this document.
    format: u32,
    /// When it was made: the names of its generated hooks say it too.
    pub made_at: Timestamp,
    /// What was asked.
    pub request: SyncRequest,
    /// The manifests as they were read, and the gates.
    pub targets: Targets,
    /// What is to be done, in order.
    pub plan: Plan,
    /// The manifests that it writes, complete.
    pub manifests: Vec<Object>,
    /// The objects it is about, as they were.
    pub sights: Vec<Sight>,
}

/// A kept plan on its way into an operation, which takes it or writes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinnedPlan {
    hash: Digest,
    made_at: Timestamp,
    plan: Plan,
    manifests: Vec<Object>,
    sights: Vec<Sight>,
    allow_drift: bool,
    approvals: Vec<PlanApproval>,
}

/// Why a kept plan is not carried out: the world has moved since it was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PlanMoved {
    /// Which plan.
    pub plan: Digest,
    /// What has moved.
    pub drift: Drift,
}

/// What is said where only unrelated fields have moved, and where others have.
const MOVED: &str = "the cluster has moved since plan ";
const UNFIT: &str = " does not fit any more: ";

impl PlanMoved {
    /// Whether that is why an operation has ended, by its message.
    pub fn is_told(message: &str) -> bool {
        message.contains(MOVED) || message.contains(UNFIT)
    }
}

impl fmt::Display for PlanMoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan.short();
        let all = if self.drift.related.is_empty() { &self.drift.unrelated } else { &self.drift.related };
        let told: Vec<&str> = all.iter().take(TOLD).map(String::as_str).collect();
        let more = match all.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let told = told.join("; ");
        if self.drift.related.is_empty() {
            write!(
                f,
                "{MOVED}{plan} was made, in fields that the plan says nothing about: {told}{more}; allow that (--allow-drift), or make a new plan"
            )
        } else {
            write!(f, "plan {plan}{UNFIT}{told}{more}; make a new plan")
        }
    }
}

/// A document that is no kept plan.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPlan {
    /// It is not JSON of the right form.
    #[error("it is not a plan that was kept: {0}")]
    Form(#[from] serde_json::Error),
    /// Another version of this program wrote it.
    #[error(
        "it has format {found}, and this program reads format {FORMAT}; make the plan again with this program"
    )]
    Format {
        /// The format it says it has.
        found: u32,
    },
    /// It is not what it was when it was made.
    #[error(
        "it was changed after it was made: it says that its hash is {said}, and that is {found}; make the plan again"
    )]
    Changed {
        /// The hash in it.
        said: Digest,
        /// The hash of what is in it.
        found: Digest,
    },
    /// What it names in the plan is not in it.
    #[error("it is damaged: a task names manifest {0}, which it does not have; make the plan again")]
    Damaged(usize),
}

/// The file: the hash, and what it is the hash of.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<P> {
    hash: String,
    plan: P,
}

impl KeptPlan {
    /// Plans against a cluster, and gives the plan with all that it was made from; and what is shown of it, in whose words no
    /// value of a Secret is. Writes nothing.
    pub async fn make(
        cluster: &dyn Cluster,
        request: SyncRequest,
        targets: Targets,
        made_at: Timestamp,
        known: Option<&Known>,
    ) -> Result<(Self, Planned), CallError> {
        let mask = targets.mask();
        let hidden = |mut error: CallError| {
            mask.hide(&mut error.message);
            error
        };
        let given = Targets { pinned: None, last_runs: Vec::new(), ..targets.clone() };
        let asked = (NO_OPERATION, &request);
        let (prepared, live) = match prepare_with(cluster, asked, targets, made_at, known).await {
            Ok(prepared) => prepared,
            Err(NotPlanned::Call(error)) => return Err(hidden(error)),
            Err(NotPlanned::Moved(moved)) => return Err(CallError::permanent(moved.to_string())),
        };
        let planned = masked(prepared.planned, &mask);
        let (plan, manifests) = (planned.plan.clone(), planned.manifests.clone());
        let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
        let by_key = by_key(&live);
        let sights = sights(&comparer, &plan, |key| by_key.get(key).map(|live| live.unpack()));
        let kept = Self { format: FORMAT, made_at, request, targets: given, plan, manifests, sights };
        Ok((kept, planned))
    }

    /// SHA-256 of all of it.
    pub fn hash(&self) -> Digest {
        let mut hasher = Sha256::new();
        // Writing to a hasher cannot fail, and all of it is plain data with texts as keys.
        let _ = serde_json::to_writer(Writer(&mut hasher), self);
        Digest(hasher.finalize().into())
    }

    /// What the plan changes of the objects it is about, were it carried out on the cluster as it is: one after the other, in
    /// its order, without hooks and without what it leaves alone. Writes nothing, and shows no value of a Secret.
    pub async fn differences(
        &self,
        cluster: &dyn Cluster,
        known: Option<&Known>,
    ) -> Result<Vec<ObjectDifference>, CallError> {
        let asked = (Question::Sync, &self.request);
        // At the moment it was made: that is what its names are of.
        let comparing = diff::diff(cluster, asked, self.targets.clone(), self.made_at, known);
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

    /// As a document, for a file.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(&Document { hash: self.hash().to_string(), plan: self })?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads a document, which has to be as it was made.
    pub fn from_json(text: &[u8]) -> Result<Self, InvalidPlan> {
        #[derive(Deserialize)]
        struct Beginning {
            plan: Format,
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Beginning { plan: Format { format } } = serde_json::from_slice(text)?;
        if format != FORMAT {
            return Err(InvalidPlan::Format { found: format });
        }
        let Document { hash, plan } = serde_json::from_slice::<Document<Self>>(text)?;
        let said: Digest = hash.parse().map_err(serde::de::Error::custom).map_err(InvalidPlan::Form)?;
        let found = plan.hash();
        if said != found {
            return Err(InvalidPlan::Changed { said, found });
        }
        let named = plan.plan.tasks.iter().filter_map(|task| task.manifest);
        match named.map(|manifest| manifest.index()).find(|index| *index >= plan.manifests.len()) {
            Some(index) => Err(InvalidPlan::Damaged(index)),
            None => Ok(plan),
        }
    }

    /// What an operation is begun with that is to carry out this plan and nothing else, for the request of the plan.
    pub fn pin(self, approvals: Vec<PlanApproval>, allow_drift: bool) -> (SyncRequest, Targets) {
        let hash = self.hash();
        let Self { made_at, request, targets, plan, manifests, sights, .. } = self;
        let pinned = PinnedPlan { hash, made_at, plan, manifests, sights, allow_drift, approvals };
        (request, Targets { pinned: Some(Box::new(pinned)), ..targets })
    }
}

struct Writer<'h>(&'h mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PinnedPlan {
    /// What is recorded of it.
    pub fn taken(&self) -> TakenPlan {
        TakenPlan { hash: self.hash, made_at: self.made_at, approvals: self.approvals.clone() }
    }

    /// When the plan was made.
    pub fn made_at(&self) -> Timestamp {
        self.made_at
    }

    /// Takes the place of a plan that was made of the cluster as it is, if both are the same.
    pub(super) fn take_place(
        self,
        planned: &mut Planned,
        request: &SyncRequest,
        live: &[LiveObject],
    ) -> Result<(), PlanMoved> {
        let Self { hash, plan, manifests, sights, allow_drift, .. } = self;
        let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
        let by_key = by_key(live);
        let kept = (&plan, manifests.as_slice(), sights.as_slice());
        let now = (&planned.plan, planned.manifests.as_slice());
        let drift = drift(&comparer, kept, now, |key| by_key.get(key).map(|live| live.unpack()));
        if !drift.related.is_empty() || (!allow_drift && !drift.is_none()) {
            return Err(PlanMoved { plan: hash, drift });
        }
        Ok(())
    }
}
