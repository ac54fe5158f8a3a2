//! What is done to each resource and hook that is wanted?

use std::collections::BTreeMap;

use tidegate_model::{
    Action, Cascade, DeletePolicy, Hook, Object, ObjectKey, Phase, SyncRequest, annotations, claimed_by,
};

use crate::bindings;
use crate::diff::Comparer;
use crate::draft::Draft;
use crate::findings::{Findings, Subject};
use crate::hooks::{self, Role};
use crate::kinds::is_crd;
use crate::left_out::LeftOut;
use crate::naming::Names;
use crate::options;
use crate::pairing::{Live, live_ref};
use crate::targets::Desired;
use crate::text::escape;
use crate::waves::wave;

/// The option by which an object of another application ends the operation.
const FAIL_ON_SHARED: &str = "FailOnSharedResource=true";

/// The finding of a hook that will be judged by what an earlier operation has left.
pub const HOOK_KEPT: &str = "hook-object-kept";

/// Whether an operation may write over what is another application's: unless `FailOnSharedResource` is on.
pub fn may_be_shared(request: &SyncRequest) -> bool {
    !request.options.has(FAIL_ON_SHARED)
}

/// Why an operation must not write over a live object: it is another application's, and `FailOnSharedResource` is on. It may have
/// become so since the plan was made.
pub fn why_not_shared(request: &SyncRequest, key: &ObjectKey, live: &Object) -> Option<String> {
    let SyncRequest { application, tracking, .. } = request;
    let other = tracking.owner(live).filter(|other| other != application)?;
    (!may_be_shared(request)).then(|| shared_found(&shared_by(key, application, other)))
}

fn shared_by(key: &ObjectKey, application: &str, other: &str) -> String {
    format!("{}/{} is part of applications {application} and {other}", key.kind, key.name)
}

fn shared_found(message: &str) -> String {
    format!("Shared resource found: {message}")
}

/// Turns wanted objects into tasks.
pub(crate) struct Drafter<'p> {
    pub request: &'p SyncRequest,
    pub names: &'p Names<'p>,
    pub live: &'p Live<'p>,
    pub comparer: &'p Comparer,
    pub findings: &'p mut Findings,
    pub left_out: &'p mut Vec<LeftOut>,
}

impl Drafter<'_> {
    /// The tasks of all wanted objects.
    pub fn draft_all(&mut self, desired: Vec<Desired>) -> Vec<Draft> {
        let mut drafts = Vec::with_capacity(desired.len());
        let mut hooks: BTreeMap<(ObjectKey, Phase), Draft> = BTreeMap::new();
        for wanted in desired {
            match &wanted.role {
                Role::Hook(phases) => self.draft_hook(&wanted, phases, &mut hooks),
                _ => drafts.push(self.draft_resource(wanted)),
            }
        }
        drafts.extend(hooks.into_values());
        drafts
    }

    fn draft_resource(&mut self, wanted: Desired) -> Draft {
        let live = self.live.find(&wanted.key, wanted.namespaced);
        let live = live.as_deref();
        self.check_shared(&wanted, live);
        let mut draft = self.begin(&wanted, Phase::Sync, &wanted.key, live);
        let (mut manifest, subject) = wanted.into_parts();
        draft.subject = subject;
        self.stamp(&mut manifest);
        if manifest.namespace() != draft.task.namespace {
            manifest.set_namespace(&draft.task.namespace);
        }
        if let Some(live) = live.filter(|_| self.request.options.has("RespectIgnoreDifferences=true")) {
            self.comparer.respect(&mut manifest, live);
        }
        let only_out_of_sync = self.request.options.has("ApplyOutOfSyncOnly=true");
        // Comparing is not free, so it is done only where somebody asks.
        let compares = only_out_of_sync || is_crd(manifest.group(), manifest.kind());
        let taken = draft.task.options.take_over.as_deref();
        let difference = live.filter(|_| compares).and_then(|live| match draft.task.options.replace {
            true => self.comparer.first_given(&manifest, live),
            false => self.comparer.first_difference(&manifest, live, taken),
        });
        draft.changes_live = difference.is_some();
        let (action, reason) = match (live, difference) {
            (None, _) => (Action::Create, "not in the cluster yet".to_owned()),
            (Some(live), None) if only_out_of_sync && !live.is_deleting() => {
                (Action::Unchanged, "in sync".to_owned())
            }
            (Some(_), _) if draft.task.options.replace => {
                (Action::Replace, "in the cluster; replaced as a whole".to_owned())
            }
            (Some(_), Some(path)) if only_out_of_sync => {
                (Action::Apply, format!("out of sync at {}; manifest is applied", escape(&path)))
            }
            (Some(live), _) if live.is_deleting() => {
                (Action::Apply, "being deleted; manifest is applied when it is gone".to_owned())
            }
            (Some(_), _) => (Action::Apply, "in the cluster; manifest is applied".to_owned()),
        };
        if action == Action::Apply && live.is_some_and(|live| bindings::gives_another_role(&manifest, live)) {
            self.findings.warn("role-changed", &draft.subject, "the role of a binding cannot be changed: if the server takes the new one, the binding is deleted and created again, and gives nobody a role in between");
        }
        draft.task.options.already_deleting = live.is_some_and(Object::is_deleting);
        draft.task.action = action;
        draft.task.reason = reason;
        draft.manifest = Some(manifest);
        draft
    }

    /// What resource and hook tasks have in common.
    fn begin(&self, wanted: &Desired, phase: Phase, key: &ObjectKey, live: Option<&Object>) -> Draft {
        let (target, options) = (&wanted.object, &self.request.options);
        let mut draft = Draft::new(phase, wave(target).wave, target.gvk(), key);
        // Where nobody knows the scope, the live object does.
        if let (None, Some(live)) = (wanted.namespaced, live) {
            draft.task.namespace = live.namespace().to_owned();
        }
        draft.task.live = live.map(live_ref);
        draft.task.options.force = options::force(target, live, options) && !holds_others(key);
        draft.task.options.replace = options::replace(target, live, options);
        draft.task.options.validate = options::validate(target, options);
        draft.task.options.server_side = options::server_side(target, options);
        draft.task.options.take_over = live.and_then(|live| options::take_over(target, live, options));
        draft.task.options.ignores_health = options::ignores_health(target, live);
        draft.task.health_judge = wanted.requests.health_judge.clone();
        draft.wave_timeout = wanted.requests.wave_timeout;
        draft.gates = wanted.requests.gates.clone();
        draft.skip_missing_kind = options::skip_missing_kind(target, options);
        draft
    }

    fn stamp(&self, manifest: &mut Object) {
        if !is_crd(manifest.group(), manifest.kind()) {
            let SyncRequest { tracking, application, namespace, .. } = self.request;
            tracking.stamp(manifest, application, namespace);
        }
    }

    /// Two applications that want the same object would undo each other's work. The object in the cluster tells that there
    /// are two, and so does a manifest that was exported from the other.
    fn check_shared(&mut self, wanted: &Desired, live: Option<&Object>) {
        let SyncRequest { application, tracking, .. } = self.request;
        let owner = live.and_then(|live| tracking.owner(live)).filter(|other| other != application);
        let claimed = claimed_by(&wanted.object).filter(|other| other != application);
        let Some(other) = owner.or(claimed) else { return };
        let mut message = shared_by(&wanted.key, application, other);
        if owner.is_none() {
            message.push_str(": its manifest carries the tracking id of the latter; remove the annotation ");
            message.push_str(annotations::TRACKING_ID);
        }
        if !may_be_shared(self.request) {
            self.findings.error("shared-resource", &wanted.subject(), shared_found(&message));
        } else {
            self.findings.warn("shared-resource", &wanted.subject(), message);
        }
    }

    /// One task per phase of a hook.
    fn draft_hook(
        &mut self,
        wanted: &Desired,
        phases: &[Phase],
        hooks: &mut BTreeMap<(ObjectKey, Phase), Draft>,
    ) {
        self.check_shared(wanted, None);
        let mut remarks = Vec::new();
        let delete_policies = hooks::delete_policies(&wanted.object, &mut remarks);
        for (code, message) in remarks {
            self.findings.warn(code, &wanted.subject(), message);
        }
        let hook = Hook {
            delete_policies,
            timeout: wanted.requests.timeout,
            runner: wanted.requests.hook_runner.clone(),
        };
        for phase in phases {
            let draft = self.draft_hook_phase(wanted, *phase, &hook);
            let key = (draft.task.key(), *phase);
            if let Some(earlier) = hooks.remove(&key) {
                self.collide(&earlier, &draft);
            }
            hooks.insert(key, draft);
        }
    }

    fn draft_hook_phase(&mut self, wanted: &Desired, phase: Phase, hook: &Hook) -> Draft {
        let mut manifest = wanted.object.clone();
        if manifest.name().is_empty() {
            // Places of objects are counted from 1.
            let name = self.names.name(wanted.place.saturating_sub(1), &manifest, phase);
            manifest.set_name(name);
        }
        let key = manifest.key();
        self.check_name(wanted, &key);
        let live = self.live.find(&key, wanted.namespaced).filter(|_| hook.runner.is_none());
        let live = live.as_deref();
        let mut draft = self.begin(wanted, phase, &key, live);
        (draft.task.action, draft.task.reason) = self.hook_action(wanted, phase, hook, live);
        draft.task.hook = Some(self.hook_in(phase, hook));
        draft.subject = wanted.subject();
        self.stamp(&mut manifest);
        manifest.set_namespace(&draft.task.namespace);
        manifest.add_finalizer(annotations::HOOK_FINALIZER);
        draft.manifest = Some(manifest);
        draft
    }

    /// The hook in one of its phases. What ran before the objects of an application were deleted is one of them, and goes
    /// with it whatever its policy.
    fn hook_in(&self, phase: Phase, hook: &Hook) -> Hook {
        let mut hook = hook.clone();
        let goes = phase == Phase::PreDelete && self.request.deletion.is_some_and(Cascade::deletes);
        if goes && !hook.deletes(DeletePolicy::HookSucceeded) {
            hook.delete_policies.push(DeletePolicy::HookSucceeded);
            hook.delete_policies.sort_unstable();
        }
        hook
    }

    fn hook_action(
        &mut self,
        wanted: &Desired,
        phase: Phase,
        hook: &Hook,
        live: Option<&Object>,
    ) -> (Action, String) {
        let Some(live) = live else { return (Action::Create, format!("{phase} hook")) };
        // Definitions carry no tracking id: that one was made as a hook is what there is to know of it.
        let was_hook =
            is_crd(live.group(), live.kind()) && live.annotation(annotations::OPERATION_ID).is_some();
        if !was_hook && !self.request.tracking.is_owner(&self.request.application, live) {
            let message = format!(
                "the cluster has a {} that does not belong to application {}, and hook {} would delete it; rename the hook, or delete the object if nobody needs it",
                live.key(),
                self.request.application,
                wanted.subject().object().unwrap_or_default(),
            );
            self.findings.error("untracked-hook-object", &wanted.subject(), message);
        } else if hook.deletes(DeletePolicy::BeforeHookCreation) {
            return (
                Action::Create,
                format!("{phase} hook; the object of an earlier operation is deleted first"),
            );
        } else if live.is_deleting() {
            return (
                Action::Create,
                format!("{phase} hook; the object of an earlier operation is on its way out"),
            );
        } else {
            return self.act_on_kept(wanted, phase, live);
        }
        (Action::Apply, format!("{phase} hook; applied to the object of an earlier operation"))
    }

    /// What is done to the object of an earlier operation that a hook's policy keeps. `Force` may make it anew all the
    /// same: then the hook runs.
    fn act_on_kept(&mut self, wanted: &Desired, phase: Phase, live: &Object) -> (Action, String) {
        const REMEDY: &str = "use metadata.generateName or add BeforeHookCreation";
        let options = &self.request.options;
        let forced = options::force(&wanted.object, Some(live), options) && !holds_others(&live.key());
        let action = if options::replace(&wanted.object, Some(live), options) {
            Action::Replace
        } else {
            Action::Apply
        };
        if forced && (action == Action::Replace || self.cannot_be_changed(&wanted.object, live)) {
            let reason = format!("{phase} hook; the object of an earlier operation is deleted and made anew");
            return (action, reason);
        }
        let unless =
            if forced { ", unless the server refuses to change it and Force makes it anew" } else { "" };
        let message = format!(
            "its delete policy keeps the object of an earlier operation, so the hook is judged by its old result{unless}; {REMEDY}"
        );
        self.findings.warn(HOOK_KEPT, &wanted.subject(), message);
        (action, format!("{phase} hook; applied to the object of an earlier operation"))
    }

    /// Whether a write would change what no server changes: the pods of a Job.
    fn cannot_be_changed(&self, target: &Object, live: &Object) -> bool {
        let found = self.comparer.first_difference(target, live, None);
        live.kind() == "Job" && found.is_some_and(|path| path.starts_with("/spec/template/spec/"))
    }

    fn check_name(&mut self, wanted: &Desired, key: &ObjectKey) {
        const LONGEST_NAME: usize = 253;
        if key.name.len() > LONGEST_NAME {
            let message = format!(
                "the generated name {:?} has more than {LONGEST_NAME} characters; shorten metadata.generateName",
                key.name
            );
            self.findings.error("hook-name-too-long", &wanted.subject(), message);
        }
    }

    /// Two hooks of one name: equal ones with the same prefix, or one that is named as another would be.
    fn collide(&mut self, earlier: &Draft, later: &Draft) {
        self.left_out.push(LeftOut::new(&earlier.subject, "another hook has the same generated name"));
        let at = |subject: &Subject| subject.origin().unwrap_or_default();
        let message = format!(
            "its generated name {:?} is also that of the hook at {}; give them different metadata.generateName",
            later.task.name,
            at(&earlier.subject)
        );
        if earlier.manifest == later.manifest {
            self.findings.warn(
                "hook-name-collision",
                &later.subject,
                format!("{message} (they are equal, so one runs)"),
            );
        } else {
            self.findings.error("hook-name-collision", &later.subject, message);
        }
    }
}

/// Whether other objects live in, or are made possible by, an object: deleting it deletes them all.
fn holds_others(key: &ObjectKey) -> bool {
    is_crd(&key.group, &key.kind) || key.kind == "Namespace"
}
