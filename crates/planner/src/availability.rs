//! Which tasks can be tried before anything is applied, and which kinds is the cluster missing?

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{GroupKind, Severity};

use crate::draft::Draft;
use crate::findings::Findings;
use crate::kinds::{Kinds, Served, declared_kind, is_crd};

/// What this operation brings to the cluster.
struct Brought {
    /// Kinds whose CRD is among the tasks; `true` when it is new or changes.
    kinds: BTreeMap<GroupKind, bool>,
    /// Namespaces that are not there yet.
    namespaces: BTreeSet<String>,
}

fn brought(drafts: &[Draft]) -> Brought {
    let written = || drafts.iter().filter_map(|draft| Some((draft, draft.manifest.as_ref()?)));
    let kinds = written()
        .filter(|(draft, _)| is_crd(&draft.task.gvk.group, &draft.task.gvk.kind))
        .filter_map(|(draft, manifest)| {
            let is_new = draft.task.live.is_none() || draft.changes_live;
            Some((declared_kind(manifest)?, is_new))
        })
        .collect();
    let namespaces = written()
        .filter(|(draft, _)| draft.task.gvk.is_namespace())
        .filter(|(draft, _)| draft.task.live.is_none())
        .map(|(draft, _)| draft.task.name.clone())
        .collect();
    Brought { kinds, namespaces }
}

/// Marks what has to wait for its wave to be tried, and finds kinds that nobody provides.
///
/// Without a cluster to ask (`offline`) a missing kind is only worth a warning.
pub(crate) fn mark(drafts: &mut [Draft], kinds: &Kinds<'_>, offline: bool, findings: &mut Findings) {
    let brought = brought(drafts);
    let severity = if offline { Severity::Warning } else { Severity::Error };
    for draft in drafts.iter_mut().filter(|draft| draft.manifest.is_some()) {
        let in_new_namespace = brought.namespaces.contains(&draft.task.namespace);
        // A hook that a runner carries out never reaches the cluster.
        let by_runner = draft.task.hook.as_ref().is_some_and(|hook| hook.runner.is_some());
        let served = if by_runner { Served::Yes } else { kinds.served(&draft.task.gvk) };
        let from_here = brought.kinds.get(&draft.task.gvk.group_kind()).copied();
        let kind_is_late = match (served, from_here) {
            (Served::Yes, brought) => brought.unwrap_or(false),
            (_, Some(_)) => true,
            (missing, None) => {
                if !draft.skip_missing_kind {
                    let code = if missing == Served::No { "unknown-kind" } else { "unknown-version" };
                    findings.add(severity, code, &draft.subject, message(draft, missing));
                }
                true
            }
        };
        draft.task.options.dry_run_at_wave = in_new_namespace || kind_is_late;
        draft.task.options.awaits_kind = from_here.is_some();
    }
}

fn message(draft: &Draft, served: Served<'_>) -> String {
    let task = &draft.task;
    let gvk = &task.gvk;
    let resource = format!("{}/{}", task.namespace, task.name);
    match served {
        Served::OtherVersions(versions) => format!(
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
