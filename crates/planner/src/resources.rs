//! Actions for targets: resources and hooks.

use std::collections::BTreeMap;

use tidegate_model::{
    Action, Cascade, DeletePolicy, Hook, Object, ObjectKey, Phase, SyncRequest, Task, annotated_application,
    annotations,
};

use crate::dependencies::{declared_dependencies, foreign_dependencies};
use crate::diff::Comparer;
use crate::draft::TaskDraft;
use crate::excluded_manifest::ExcludedManifest;
use crate::findings::{FindingSubject, Findings};
use crate::generated_names::GeneratedNames;
use crate::hooks::{self, SyncRole};
use crate::known_kinds::is_crd;
use crate::pairing::{LiveIndex, live_ref};
use crate::role_bindings;
use crate::sync_options;
use crate::targets::SyncTarget;
use crate::text::escape;
use crate::waves::wave_of_object;

/// Option that fails the operation if an object belongs to another application.
pub(crate) const FAIL_ON_SHARED: &str = "FailOnSharedResource=true";

/// Option that leaves objects alone if they are in sync.
pub const ONLY_OUT_OF_SYNC: &str = "ApplyOutOfSyncOnly=true";

/// Finding code for an object that belongs to another application as well.
pub(crate) const SHARED_RESOURCE: &str = "shared-resource";

/// Start of the reason for applying an object that is out of sync.
pub(crate) const OUT_OF_SYNC: &str = "out of sync at ";

/// Finding code for a hook whose result comes from an earlier operation's object.
pub const HOOK_OBJECT_KEPT: &str = "hook-object-kept";

/// Returns true if an operation may overwrite objects that belong to other applications.
/// `FailOnSharedResource` forbids it.
pub fn can_overwrite_shared(request: &SyncRequest) -> bool {
    !request.options.has(FAIL_ON_SHARED)
}

/// Returns the reason an operation must not overwrite a live object: the object belongs to another
/// application, and `FailOnSharedResource` is set. This is checked again before the write, because the owner
/// may have changed since planning.
pub fn shared_resource_refusal(request: &SyncRequest, key: &ObjectKey, live: &Object) -> Option<String> {
    let SyncRequest { application, tracking, .. } = request;
    let other = tracking.owner(live).filter(|other| other != application)?;
    (!can_overwrite_shared(request))
        .then(|| shared_resource_error(&shared_resource_message(key, application, other)))
}

fn shared_resource_message(key: &ObjectKey, application: &str, other: &str) -> String {
    format!("{}/{} is part of applications {application} and {other}", key.kind, key.name)
}

fn shared_resource_error(message: &str) -> String {
    format!("Shared resource found: {message}")
}

/// Converts targets to tasks.
pub(crate) struct Drafter<'p> {
    pub request: &'p SyncRequest,
    pub names: &'p GeneratedNames<'p>,
    pub live: &'p LiveIndex<'p>,
    pub comparer: &'p Comparer,
    pub findings: &'p mut Findings,
    pub left_out: &'p mut Vec<ExcludedManifest>,
}

impl Drafter<'_> {
    /// Returns the tasks of all targets.
    pub fn draft_all(&mut self, desired: Vec<SyncTarget>) -> Vec<TaskDraft> {
        let mut drafts = Vec::with_capacity(desired.len());
        let mut hooks: BTreeMap<(ObjectKey, Phase), TaskDraft> = BTreeMap::new();
        for wanted in desired {
            match &wanted.role {
                SyncRole::Hook(phases) => self.draft_hook(&wanted, phases, &mut hooks),
                _ => drafts.push(self.draft_resource(wanted)),
            }
        }
        drafts.extend(hooks.into_values());
        drafts
    }

    fn draft_resource(&mut self, wanted: SyncTarget) -> TaskDraft {
        let live = self.live.find(&wanted.key, wanted.namespaced);
        let live = live.as_deref();
        self.report_shared(&wanted, live);
        let mut draft = self.start_draft(&wanted, Phase::Sync, &wanted.key, live);
        let (mut manifest, subject) = wanted.into_parts();
        draft.subject = subject;
        self.mark_manifest(&mut manifest);
        if manifest.namespace() != draft.task.namespace {
            manifest.set_namespace(&draft.task.namespace);
        }
        if let Some(live) = live.filter(|_| self.request.options.has("RespectIgnoreDifferences=true")) {
            self.comparer.preserve_ignored(&mut manifest, live);
        }
        let only_out_of_sync = self.request.options.has(ONLY_OUT_OF_SYNC);
        // Comparing objects is expensive, so only do it if needed.
        let compares = only_out_of_sync || is_crd(manifest.group(), manifest.kind());
        // Client-side apply removes fields that are in the last-applied manifest but not in the new one,
        // whichever client applied it.
        let noted = live.filter(|live| live.annotation(annotations::LAST_APPLIED).is_some());
        let noted =
            noted.filter(|_| !draft.task.options.server_side).map(|_| sync_options::client_side_managers());
        let taken = noted.unwrap_or_else(|| draft.task.options.take_over.clone());
        let difference = live.filter(|_| compares).and_then(|live| match draft.task.options.replace {
            true => self.comparer.first_target_difference(&manifest, live),
            false => self.comparer.first_difference(&manifest, live, &taken),
        });
        draft.changes_live = difference.is_some();
        draft.task.options.already_deleting = live.is_some_and(Object::is_deleting);
        (draft.task.action, draft.task.reason) = match difference {
            Some(path) if only_out_of_sync && !draft.task.options.replace => {
                let reason = format!("{OUT_OF_SYNC}{}; manifest will be applied", escape(&path));
                (Action::Apply, with_takeover(&draft.task, reason))
            }
            None if only_out_of_sync && live.is_some() && !draft.task.options.already_deleting => {
                (Action::Unchanged, "in sync".to_owned())
            }
            _ => write_action(&draft.task),
        };
        if draft.task.action == Action::Apply
            && live.is_some_and(|live| role_bindings::changes_role(&manifest, live))
        {
            self.findings.warn(
                "role-changed",
                &draft.subject,
                "a binding's roleRef is immutable: if the API server accepts the \
                 new role, the binding is deleted and recreated, and grants no permissions in the meantime",
            );
        }
        draft.manifest = Some(manifest);
        draft
    }

    /// Creates the common parts of resource and hook tasks.
    fn start_draft(
        &self,
        wanted: &SyncTarget,
        phase: Phase,
        key: &ObjectKey,
        live: Option<&Object>,
    ) -> TaskDraft {
        let (target, options) = (&wanted.object, &self.request.options);
        let mut draft = TaskDraft::new(phase, wave_of_object(target).number, target.gvk(), key);
        // If the kind's scope is unknown, go by the live object.
        if let (None, Some(live)) = (wanted.namespaced, live) {
            draft.task.namespace = live.namespace().to_owned();
        }
        draft.task.live = live.map(live_ref);
        draft.task.options.force =
            sync_options::is_forced(target, live, options) && !contains_other_objects(key);
        draft.task.options.replace = sync_options::is_replaced(target, live, options);
        draft.task.options.validate = sync_options::is_validated(target, options);
        draft.task.options.server_side = sync_options::is_server_side(target, options);
        let taken = live.map(|live| sync_options::managers_to_take_over(target, live, self.request));
        draft.task.options.take_over = taken.unwrap_or_default();
        draft.task.options.ignores_health = sync_options::ignores_health(target, live);
        draft.task.health_judge = wanted.requests.health_judge.clone();
        draft.wave_timeout = wanted.requests.wave_timeout;
        draft.gates = wanted.requests.gates.clone();
        draft.depends_on = declared_dependencies(target);
        (draft.foreign, _) = foreign_dependencies(target);
        draft.waits_for_kind = sync_options::skips_missing_kind(target, options);
        draft
    }

    fn mark_manifest(&self, manifest: &mut Object) {
        if !is_crd(manifest.group(), manifest.kind()) {
            let SyncRequest { tracking, application, namespace, .. } = self.request;
            tracking.mark_manifest(manifest, application, namespace);
        }
    }

    /// Reports objects that another application manages too, since the two would keep undoing each other's
    /// changes. The evidence is the mark on the live object, or on a manifest that was exported from the
    /// other application.
    fn report_shared(&mut self, wanted: &SyncTarget, live: Option<&Object>) {
        let SyncRequest { application, tracking, .. } = self.request;
        let owner = live.and_then(|live| tracking.owner(live)).filter(|other| other != application);
        let claimed = annotated_application(&wanted.object).filter(|other| other != application);
        let Some(other) = owner.or(claimed) else { return };
        let mut message = shared_resource_message(&wanted.key, application, other);
        if owner.is_none() {
            message.push_str(
                ": the manifest carries the tracking ID of the second application; remove the annotation ",
            );
            message.push_str(annotations::TRACKING_ID);
        }
        if !can_overwrite_shared(self.request) {
            self.findings.error(SHARED_RESOURCE, &wanted.finding_subject(), shared_resource_error(&message));
        } else {
            self.findings.warn(SHARED_RESOURCE, &wanted.finding_subject(), message);
        }
    }

    /// Creates a task for each of a hook's phases.
    fn draft_hook(
        &mut self,
        wanted: &SyncTarget,
        phases: &[Phase],
        hooks: &mut BTreeMap<(ObjectKey, Phase), TaskDraft>,
    ) {
        self.report_shared(wanted, None);
        let mut remarks = Vec::new();
        let delete_policies = hooks::delete_policies(&wanted.object, &mut remarks);
        for (code, message) in remarks {
            self.findings.warn(code, &wanted.finding_subject(), message);
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
                self.report_collision(&earlier, &draft);
            }
            hooks.insert(key, draft);
        }
    }

    fn draft_hook_phase(&mut self, wanted: &SyncTarget, phase: Phase, hook: &Hook) -> TaskDraft {
        let mut manifest = wanted.object.clone();
        if manifest.name().is_empty() {
            // Subject positions start at 1.
            let name = self.names.name_for(wanted.position.saturating_sub(1), &manifest, phase);
            manifest.set_name(name);
        }
        let key = manifest.key();
        self.check_name(wanted, &key);
        let live = self.live.find(&key, wanted.namespaced).filter(|_| hook.runner.is_none());
        let live = live.as_deref();
        let mut draft = self.start_draft(wanted, phase, &key, live);
        (draft.task.action, draft.task.reason) = self.hook_action(wanted, phase, hook, live);
        draft.task.hook = Some(self.hook_for_phase(phase, hook));
        draft.subject = wanted.finding_subject();
        self.mark_manifest(&mut manifest);
        manifest.set_namespace(&draft.task.namespace);
        manifest.add_finalizer(annotations::HOOK_FINALIZER);
        draft.manifest = Some(manifest);
        draft
    }

    /// Returns the hook's settings for one of its phases. A hook that ran before an application's objects
    /// were deleted counts as one of them, and is deleted with them whatever its policy.
    fn hook_for_phase(&self, phase: Phase, hook: &Hook) -> Hook {
        let mut hook = hook.clone();
        let goes = phase == Phase::PreDelete && self.request.deletion.is_some_and(Cascade::deletes_objects);
        if goes && !hook.has_delete_policy(DeletePolicy::HookSucceeded) {
            hook.delete_policies.push(DeletePolicy::HookSucceeded);
            hook.delete_policies.sort_unstable();
        }
        hook
    }

    fn hook_action(
        &mut self,
        wanted: &SyncTarget,
        phase: Phase,
        hook: &Hook,
        live: Option<&Object>,
    ) -> (Action, String) {
        let Some(live) = live else { return (Action::Create, format!("{phase} hook")) };
        // CRDs have no tracking ID. An operation ID means that an earlier operation created the CRD as a
        // hook.
        let was_hook =
            is_crd(live.group(), live.kind()) && live.annotation(annotations::OPERATION_ID).is_some();
        if !was_hook && !self.request.tracking.is_owner(&self.request.application, live) {
            let message = format!(
                "{} exists in the cluster but does not belong to application {}, and hook {} would delete or overwrite it; rename the hook, or delete the object if it is no longer needed",
                live.key(),
                self.request.application,
                wanted.finding_subject().object_text().unwrap_or_default(),
            );
            self.findings.error("untracked-hook-object", &wanted.finding_subject(), message);
        } else if hook.has_delete_policy(DeletePolicy::BeforeHookCreation) {
            return (
                Action::Create,
                format!("{phase} hook; the object from an earlier operation will be deleted first"),
            );
        } else if live.is_deleting() {
            return (
                Action::Create,
                format!("{phase} hook; the object from an earlier operation is being deleted"),
            );
        } else {
            return self.action_for_kept_hook(wanted, phase, live);
        }
        (Action::Apply, format!("{phase} hook; applied to the object from an earlier operation"))
    }

    /// Returns the action for an object that an earlier operation kept because of the hook's deletion policy.
    /// With `Force`, it may be recreated, which runs the hook again.
    fn action_for_kept_hook(&mut self, wanted: &SyncTarget, phase: Phase, live: &Object) -> (Action, String) {
        const REMEDY: &str = "use metadata.generateName or add BeforeHookCreation";
        let options = &self.request.options;
        let forced = sync_options::is_forced(&wanted.object, Some(live), options)
            && !contains_other_objects(&live.key());
        let action = if sync_options::is_replaced(&wanted.object, Some(live), options) {
            Action::Replace
        } else {
            Action::Apply
        };
        if forced && (action == Action::Replace || self.changes_immutable_field(&wanted.object, live)) {
            let reason =
                format!("{phase} hook; the object from an earlier operation will be deleted and recreated");
            return (action, reason);
        }
        let unless = if forced {
            ", unless the API server rejects the change and Force recreates the object"
        } else {
            ""
        };
        let message = format!(
            "its delete policy keeps the object from an earlier operation, so the hook's earlier result is used{unless}; {REMEDY}"
        );
        self.findings.warn(HOOK_OBJECT_KEPT, &wanted.finding_subject(), message);
        (action, format!("{phase} hook; applied to the object from an earlier operation"))
    }

    /// Returns true if the write would change a field that is immutable on every server: a Job's pod
    /// template.
    fn changes_immutable_field(&self, target: &Object, live: &Object) -> bool {
        let found = self.comparer.first_difference(target, live, &[]);
        live.kind() == "Job" && found.is_some_and(|path| path.starts_with("/spec/template/spec/"))
    }

    fn check_name(&mut self, wanted: &SyncTarget, key: &ObjectKey) {
        const LONGEST_NAME: usize = 253;
        if key.name.len() > LONGEST_NAME {
            let message = format!(
                "the generated name {:?} is longer than {LONGEST_NAME} characters; shorten \
                 metadata.generateName",
                key.name
            );
            self.findings.error("hook-name-too-long", &wanted.finding_subject(), message);
        }
    }

    /// Reports two hooks with the same name: identical hooks with the same prefix, or a hook with a fixed
    /// name that equals another's generated name.
    fn report_collision(&mut self, earlier: &TaskDraft, later: &TaskDraft) {
        self.left_out
            .push(ExcludedManifest::new(&earlier.subject, "another hook has the same generated name"));
        let at = |subject: &FindingSubject| subject.origin_text().unwrap_or_default();
        let message = format!(
            "the generated name {:?} is also the name of the hook at {}; use a different metadata.generateName",
            later.task.name,
            at(&earlier.subject)
        );
        if earlier.manifest == later.manifest {
            self.findings.warn(
                "hook-name-collision",
                &later.subject,
                format!("{message} (the hooks are identical, so only one runs)"),
            );
        } else {
            self.findings.error("hook-name-collision", &later.subject, message);
        }
    }
}

/// Returns the action for a resource whose manifest is written whether or not it is out of sync, and the
/// reason.
pub(crate) fn write_action(task: &Task) -> (Action, String) {
    let (action, reason) = match task.live {
        None => (Action::Create, "not in the cluster yet"),
        Some(_) if task.options.replace => (Action::Replace, "in the cluster; replaced as a whole"),
        Some(_) if task.options.already_deleting => {
            (Action::Apply, "being deleted; manifest will be applied once the deletion is complete")
        }
        Some(_) => (Action::Apply, "in the cluster; manifest will be applied"),
    };
    match action {
        Action::Apply => (action, with_takeover(task, reason.to_owned())),
        _ => (action, reason.to_owned()),
    }
}

/// Adds the managers whose fields an apply takes over to its reason.
fn with_takeover(task: &Task, reason: String) -> String {
    match &task.options.take_over[..] {
        [] => reason,
        managers => format!("{reason}; takes over the fields of {}", managers.join(", ")),
    }
}

/// Returns true if deleting an object deletes others with it: those in a namespace, or those of a kind that a
/// CRD defines.
fn contains_other_objects(key: &ObjectKey) -> bool {
    is_crd(&key.group, &key.kind) || key.kind == "Namespace"
}
