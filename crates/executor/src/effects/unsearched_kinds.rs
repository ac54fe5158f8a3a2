//! Findings about kinds that couldn't be searched for the application's objects.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{IncompleteSearch, LiveQuery, MissingRight};
use tidegate_model::{Cascade, GroupKind, Plan, Severity, SyncRequest, Warning};

use super::rights;

/// Code of the finding.
pub const NOT_SEARCHED: &str = "not-searched";
/// Maximum number of kinds listed in a message.
const NAMED_KINDS_MAX: usize = 10;

/// Reports kinds that couldn't be searched although they may have objects of the application. They block a
/// deletion, which would otherwise remove the application and leave the objects behind. Namespaces other than
/// the application's own aren't reported. If the locations of all objects are known (`is_known`), the search
/// can only miss hooks of earlier syncs.
pub(super) fn report_unsearched_kinds(
    request: &SyncRequest,
    query: &LiveQuery,
    unsearched: &[IncompleteSearch],
    is_known: bool,
    plan: &mut Plan,
) {
    let deletes = request.deletion.is_some_and(Cascade::deletes_objects);
    if !deletes && (request.deletion.is_some() || !request.options.prune) {
        return;
    }
    let places = query.named.iter().chain(&query.inventory);
    let own: BTreeSet<GroupKind> = places.map(|(gvk, _, _)| gvk.group_kind()).collect();
    let is_meant = |one: &&IncompleteSearch| !one.has_searched_namespaces && own.contains(&one.kind);
    let blind: Vec<&IncompleteSearch> = unsearched.iter().filter(is_meant).collect();
    if blind.is_empty() {
        return;
    }
    // A failed search may succeed later, unless permissions are missing.
    let is_final = blind.iter().all(|one| !one.missing_rights.is_empty());
    let (severity, meaning) = match (deletes, is_known && is_final) {
        (true, false) => (
            Severity::Error,
            "nothing is deleted because some of the application's objects could be left behind",
        ),
        (true, true) => (Severity::Warning, "hooks of earlier syncs may be left behind"),
        (false, _) => (Severity::Warning, "objects that are no longer in the manifests cannot be found"),
    };
    let kinds = blind.iter().map(|one| one.kind.to_string());
    plan.warnings.push(Warning {
        severity,
        code: NOT_SEARCHED.to_owned(),
        object: None,
        origin: None,
        message: format!(
            "cannot list objects of these kinds: {} ({}); {meaning}",
            format_names(kinds),
            describe_causes(&blind)
        ),
    });
}

/// Describes the missing rights and the errors returned by the cluster.
fn describe_causes(blind: &[&IncompleteSearch]) -> String {
    let missing: BTreeSet<MissingRight> =
        blind.iter().flat_map(|one| one.missing_rights.iter().cloned()).collect();
    let rights =
        (!missing.is_empty()).then(|| format!("missing permissions: {}", rights::format_rights(&missing)));
    let failed = blind.iter().filter(|one| one.missing_rights.is_empty());
    // Report each error once: many kinds may fail for the same reason.
    let failed: BTreeMap<&str, &GroupKind> = failed.map(|one| (one.message.as_str(), &one.kind)).collect();
    let failed = failed.into_iter().map(|(message, kind)| format!("{kind}: {message}"));
    rights.into_iter().chain(failed.take(1)).collect::<Vec<_>>().join("; ")
}

fn format_names(mut all: impl ExactSizeIterator<Item = String>) -> String {
    let names: Vec<String> = all.by_ref().take(NAMED_KINDS_MAX).collect();
    match all.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
