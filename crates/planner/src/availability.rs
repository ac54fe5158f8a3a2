//! Availability of kinds and namespaces: decides which tasks can be dry-run before anything is applied.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{GroupKind, Severity};

use crate::draft::TaskDraft;
use crate::findings::Findings;
use crate::known_kinds::{KindAvailability, KnownKinds, crd_kind, is_crd};

/// Kinds and namespaces that this operation creates.
struct CreatedByOperation {
    /// Kinds whose CRD is among the tasks. `true` if the CRD is new or changes.
    kinds: BTreeMap<GroupKind, bool>,
    /// Namespaces that don't exist yet.
    namespaces: BTreeSet<String>,
}

fn created_by_operation(drafts: &[TaskDraft]) -> CreatedByOperation {
    let written = || drafts.iter().filter_map(|draft| Some((draft, draft.manifest.as_ref()?)));
    let kinds = written()
        .filter(|(draft, _)| is_crd(&draft.task.gvk.group, &draft.task.gvk.kind))
        .filter_map(|(draft, manifest)| {
            let is_new = draft.task.live.is_none() || draft.changes_live;
            Some((crd_kind(manifest)?, is_new))
        })
        .collect();
    let namespaces = written()
        .filter(|(draft, _)| draft.task.gvk.is_namespace())
        .filter(|(draft, _)| draft.task.live.is_none())
        .map(|(draft, _)| draft.task.name.clone())
        .collect();
    CreatedByOperation { kinds, namespaces }
}

/// Marks tasks whose dry run must wait for their wave, and reports unavailable kinds.
///
/// Without a cluster (`offline`), a missing kind is only a warning.
pub(crate) fn mark_availability(
    drafts: &mut [TaskDraft],
    kinds: &KnownKinds<'_>,
    offline: bool,
    findings: &mut Findings,
) {
    let brought = created_by_operation(drafts);
    let severity = if offline { Severity::Warning } else { Severity::Error };
    for draft in drafts.iter_mut().filter(|draft| draft.manifest.is_some()) {
        let in_new_namespace = brought.namespaces.contains(&draft.task.namespace);
        // A hook with a runner is never sent to the cluster.
        let by_runner = draft.task.hook.as_ref().is_some_and(|hook| hook.runner.is_some());
        let served =
            if by_runner { KindAvailability::Available } else { kinds.availability(&draft.task.gvk) };
        let from_here = brought.kinds.get(&draft.task.gvk.group_kind()).copied();
        let kind_is_late = match (served, from_here) {
            (KindAvailability::Available, brought) => brought.unwrap_or(false),
            (_, Some(_)) => true,
            (missing, None) => {
                if !draft.waits_for_kind {
                    let code = if missing == KindAvailability::Unavailable {
                        "unknown-kind"
                    } else {
                        "unknown-version"
                    };
                    findings.add(severity, code, &draft.subject, unavailable_kind_message(draft, missing));
                }
                true
            }
        };
        draft.task.options.dry_run_at_wave = in_new_namespace || kind_is_late;
        draft.task.options.awaits_kind = from_here.is_some();
    }
}

fn unavailable_kind_message(draft: &TaskDraft, served: KindAvailability<'_>) -> String {
    let task = &draft.task;
    let gvk = &task.gvk;
    let resource = format!("{}/{}", task.namespace, task.name);
    match served {
        KindAvailability::OtherVersions(versions) => format!(
            "The Kubernetes API could not find version \"{}\" of {}/{} for requested resource {resource}. Version \"{}\" of {}/{} is installed on the destination cluster.",
            gvk.version,
            gvk.group,
            gvk.kind,
            versions.join("\", \""),
            gvk.group,
            gvk.kind
        ),
        _ => format!(
            "The Kubernetes API could not find {}/{} for requested resource {resource}. Make sure the \"{}\" CRD is installed on the destination cluster.",
            gvk.group, gvk.kind, gvk.kind
        ),
    }
}
