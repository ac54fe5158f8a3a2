//! Which objects are certainly the application's, and what is planned for one that is to go?

use std::collections::BTreeSet;

use tidegate_model::{Action, Object, ObjectKey, Phase, SyncRequest};

use crate::draft::Draft;
use crate::findings::Subject;
use crate::pairing::live_ref;
use crate::waves::wave;

/// What an application may call its own without a doubt. A name and a mark are no proof: another installation, another
/// state directory or Argo CD may have an application of the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain<'p> {
    pub request: &'p SyncRequest,
    /// What earlier operations of this log put into the cluster; for a deletion also what the manifests and the resource of the
    /// application name.
    pub known: &'p BTreeSet<ObjectKey>,
    /// The namespaces that this operation deploys to.
    pub namespaces: &'p BTreeSet<String>,
}

impl Domain<'_> {
    /// Whether an object with the application's mark is its own: it bears the id of the installation, it is known to be, or it
    /// is in a namespace that this operation deploys to.
    pub fn holds(&self, live: &Object) -> bool {
        !self.request.tracking.installation.is_empty()
            || self.namespaces.contains(live.namespace())
            || self.known.contains(&live.key())
    }
}

/// What happens to one object, whether it waits for a person, and why.
pub(crate) type Decision = (Action, bool, &'static str);

/// The task of one object that is certainly the application's, as decided; what is not is left alone.
pub(crate) fn draft_of(
    domain: Domain<'_>,
    live: &Object,
    decide: impl Fn(&SyncRequest, &Object) -> Decision,
) -> Draft {
    let key = live.key();
    let mut draft = Draft::new(Phase::Sync, wave(live).wave, live.gvk(), &key);
    let found_elsewhere = !domain.holds(live);
    let (action, confirm, reason) = if found_elsewhere && !domain.request.options.adopt {
        (Action::PruneSkipped, false, "ignored (found elsewhere, requires adopting)")
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
    draft.subject = Subject::live(key);
    draft
}
