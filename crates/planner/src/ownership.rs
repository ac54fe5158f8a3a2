//! Ownership of objects by an application, and the tasks for objects that must be deleted.

use std::collections::BTreeSet;

use tidegate_model::{Action, Object, ObjectKey, Phase, SyncRequest};

use crate::dependencies::{declared_dependencies, foreign_dependencies};
use crate::draft::TaskDraft;
use crate::findings::FindingSubject;
use crate::pairing::live_ref;
use crate::waves::wave_of_object;

/// Evidence that an object belongs to an application. A name and a mark aren't enough: Argo CD, another
/// installation or another state directory may have an application with the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnershipScope<'p> {
    pub request: &'p SyncRequest,
    /// Objects that earlier operations in this log wrote. For a deletion, also those in the manifests and in
    /// the application's status.
    pub inventory: &'p BTreeSet<ObjectKey>,
    /// Namespaces that this operation deploys to.
    pub namespaces: &'p BTreeSet<String>,
}

impl OwnershipScope<'_> {
    /// Returns true if an object with the application's mark is certainly its own: it has the installation's
    /// ID, is in the inventory, or is in a namespace that this operation deploys to.
    pub fn is_owned(&self, live: &Object) -> bool {
        !self.request.tracking.installation.is_empty()
            || self.namespaces.contains(live.namespace())
            || self.inventory.contains(&live.key())
    }
}

/// Action for an object, `true` if a user must confirm it, and the reason.
pub(crate) type Decision = (Action, bool, &'static str);

/// Returns the task for an object that is certainly the application's own. Objects of uncertain ownership are
/// left alone.
pub(crate) fn draft_owned(
    domain: OwnershipScope<'_>,
    live: &Object,
    decide: impl Fn(&SyncRequest, &Object) -> Decision,
) -> TaskDraft {
    let key = live.key();
    let mut draft = TaskDraft::new(Phase::Sync, wave_of_object(live).number, live.gvk(), &key);
    let found_elsewhere = !domain.is_owned(live);
    let (action, confirm, reason) = if found_elsewhere && !domain.request.options.adopt {
        (Action::PruneSkipped, false, "ignored (found elsewhere, requires adoption)")
    } else {
        decide(domain.request, live)
    };
    draft.task.action = action;
    draft.task.reason = match found_elsewhere && domain.request.options.adopt {
        true => format!("{reason}; found elsewhere and adopted"),
        false => reason.to_owned(),
    };
    draft.task.options.found_elsewhere = found_elsewhere;
    draft.task.options.confirm_prune = confirm;
    draft.task.options.already_deleting = live.is_deleting();
    draft.task.live = Some(live_ref(live));
    draft.subject = FindingSubject::for_live(key);
    draft.depends_on = declared_dependencies(live);
    // Only the manifests are reviewed.
    (draft.foreign, _) = foreign_dependencies(live);
    draft
}
