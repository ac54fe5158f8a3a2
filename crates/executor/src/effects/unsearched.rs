//! What a plan says of kinds that could not be searched for objects of the application.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{LiveQuery, MissingRight, Unsearched};
use tidegate_model::{Cascade, GroupKind, Plan, Severity, SyncRequest, Warning};

use super::rights;

/// The code of the finding.
pub const NOT_SEARCHED: &str = "not-searched";
/// So many kinds are named.
const NAMED_MAX: usize = 10;

/// Says of which kinds the application may have objects that nobody could look for. A deletion does not run then: it would end
/// with the application, and leave them behind. Where only other namespaces than the application's own could not be looked
/// through, nothing is said. Where it is known where all of its objects are (`is_known`), only hooks of earlier syncs can be missed.
pub(super) fn review(
    request: &SyncRequest,
    query: &LiveQuery,
    (unsearched, is_known): (&[Unsearched], bool),
    plan: &mut Plan,
) {
    let deletes = request.deletion.is_some_and(Cascade::deletes);
    if !deletes && (request.deletion.is_some() || !request.options.prune) {
        return;
    }
    let places = query.named.iter().chain(&query.inventory);
    let own: BTreeSet<GroupKind> = places.map(|(gvk, _, _)| gvk.group_kind()).collect();
    let is_meant = |one: &&Unsearched| !one.is_beyond && own.contains(&one.kind);
    let blind: Vec<&Unsearched> = unsearched.iter().filter(is_meant).collect();
    if blind.is_empty() {
        return;
    }
    // What has failed may not fail the next time.
    let is_final = blind.iter().all(|one| !one.missing.is_empty());
    let (severity, meaning) = match (deletes, is_known && is_final) {
        (true, false) => (Severity::Error, "so nothing is deleted, or they would be left behind"),
        (true, true) => (Severity::Warning, "so hooks of earlier syncs may be left behind"),
        (false, _) => (Severity::Warning, "so none that is no longer in the manifests is found"),
    };
    let kinds = blind.iter().map(|one| one.kind.to_string());
    plan.warnings.push(Warning {
        severity,
        code: NOT_SEARCHED.to_owned(),
        object: None,
        origin: None,
        message: format!(
            "the application may have objects of these kinds that cannot be looked for, {meaning}: {}; {}",
            named(kinds),
            why(&blind)
        ),
    });
}

/// The rights that are missing, and what the cluster says where it has failed.
fn why(blind: &[&Unsearched]) -> String {
    let missing: BTreeSet<MissingRight> = blind.iter().flat_map(|one| one.missing.iter().cloned()).collect();
    let rights =
        (!missing.is_empty()).then(|| format!("these rights are missing: {}", rights::words(&missing)));
    let failed = blind.iter().filter(|one| one.missing.is_empty());
    // Many kinds fail for one reason.
    let failed: BTreeMap<&str, &GroupKind> = failed.map(|one| (one.message.as_str(), &one.kind)).collect();
    let failed = failed.into_iter().map(|(message, kind)| format!("{kind}: {message}"));
    rights.into_iter().chain(failed.take(1)).collect::<Vec<_>>().join("; ")
}

fn named(mut all: impl ExactSizeIterator<Item = String>) -> String {
    let names: Vec<String> = all.by_ref().take(NAMED_MAX).collect();
    match all.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
