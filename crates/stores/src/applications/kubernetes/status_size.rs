//! Shortening of a status that is too large for a resource. Long lists are truncated, and a condition reports
//! the number of dropped entries.

use serde_json::{Value, json};

/// Maximum size of a status in bytes, and of its long lists together. API servers and etcd limit a resource
/// to 1.5 MiB, including its spec, annotations and `managedFields`.
pub const STATUS_BYTES_MAX: usize = 900 << 10;
/// Condition type of a shortened status.
pub const SHORTENED_CONDITION: &str = "StatusShortenedWarning";
/// JSON pointer to a list, the list's share of the available bytes in eighths, and a function that returns
/// true for healthy entries.
type LongList = (&'static str, usize, fn(&Value) -> bool);
const EIGHTHS: usize = 8;

/// Long lists in a status.
pub struct LongLists {
    /// The lists.
    pub lists: &'static [LongList],
    /// True if the conditions have `status` and `reason` fields.
    pub has_reasons: bool,
    /// Command that shows the full status.
    pub command: &'static str,
}

/// Long lists in an Application's status.
pub(super) const APPLICATION_LISTS: LongLists = LongLists {
    lists: &[
        ("/resources", 4, is_resource_healthy),
        ("/operationState/syncResult/resources", 2, is_result_successful),
        ("/summary/images", 1, |_| true),
        ("/summary/externalURLs", 1, |_| true),
    ],
    has_reasons: false,
    command: "tidegate app get",
};

/// Shortens a status that is too large for a resource. Prefers to keep unhealthy entries.
pub fn shorten_status(status: &mut Value, bytes_max: usize, lists: &LongLists) {
    if json_size(status) <= bytes_max {
        return;
    }
    let mut messages = Vec::new();
    for (pointer, eighths, is_healthy) in lists.lists {
        let most = bytes_max / EIGHTHS * eighths;
        let Some(list) = status.pointer_mut(pointer).and_then(Value::as_array_mut) else { continue };
        let all = list.len();
        shorten_list(list, most, *is_healthy);
        if list.len() < all {
            let name = pointer.trim_start_matches('/').replace('/', ".");
            messages.push(format!("{} of {all} entries of status.{name}", list.len()));
        }
    }
    if messages.is_empty() {
        return;
    }
    let message = format!(
        "the resource would be too large, so it contains only {}, starting with those that need attention; \
         `{}` and the API show all entries",
        messages.join(", "),
        lists.command
    );
    let mut condition = json!({"type": SHORTENED_CONDITION, "message": message});
    if let (true, Some(fields)) = (lists.has_reasons, condition.as_object_mut()) {
        fields.extend([("status".to_owned(), json!("True")), ("reason".to_owned(), json!("TooLarge"))]);
    }
    if let Some(status) = status.as_object_mut() {
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        conditions.as_array_mut().into_iter().for_each(|conditions| conditions.push(condition.clone()));
    }
}

/// Keeps as many entries as fit, in their original order.
fn shorten_list(list: &mut Vec<Value>, most: usize, is_healthy: fn(&Value) -> bool) {
    let sizes: Vec<usize> = list.iter().map(|one| json_size(one).saturating_add(1)).collect();
    let mut left = most;
    let mut retained = vec![false; list.len()];
    for wanted in [false, true] {
        for ((one, size), is_kept) in list.iter().zip(&sizes).zip(&mut retained) {
            if is_healthy(one) == wanted && *size <= left {
                left = left.saturating_sub(*size);
                *is_kept = true;
            }
        }
    }
    let mut retained = retained.into_iter();
    list.retain(|_| retained.next().unwrap_or_default());
}

fn json_size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

pub(crate) fn is_resource_healthy(one: &Value) -> bool {
    let text = |pointer| one.pointer(pointer).and_then(Value::as_str);
    text("/status") == Some("Synced")
        && matches!(text("/health/status"), None | Some("Healthy"))
        && one.get("requiresPruning").is_none()
}

fn is_result_successful(one: &Value) -> bool {
    let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
    text("status") != "SyncFailed" && !["Failed", "Error", "Running"].contains(&text("hookPhase"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use super::*;

    fn resource(number: usize) -> Value {
        let status = if number % 1000 == 999 { "OutOfSync" } else { "Synced" };
        let health = if number % 1000 == 500 { "Degraded" } else { "Healthy" };
        json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "status": status,
            "name": format!("server-{number}-with-a-name-as-long-as-generated-names-are"), "health": {"status": health}})
    }

    fn status(number: usize) -> Value {
        let result = |number: usize| {
            let status = if number == 9_000 { "SyncFailed" } else { "Synced" };
            json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": format!("server-{number}"),
                "status": status, "message": "deployment.apps/server serverside-applied", "syncPhase": "Sync"})
        };
        json!({
            "sync": {"status": "OutOfSync", "revision": "1".repeat(40)},
            "resources": (0..number).map(resource).collect::<Vec<_>>(),
            "conditions": [{"type": "SyncError", "message": "one failed"}],
            "operationState": {"phase": "Failed", "syncResult": {"resources": (0..number).map(result).collect::<Vec<_>>()}},
            "summary": {"images": (0..number).map(|number| format!("example.com/server:{number}")).collect::<Vec<_>>()},
        })
    }

    #[test]
    fn ten_thousand_resources_fit_and_include_the_unhealthy_ones() {
        let whole = status(10_000);
        let mut short = whole.clone();
        shorten_status(&mut short, STATUS_BYTES_MAX, &APPLICATION_LISTS);
        assert!(
            json_size(&whole) > 2 * STATUS_BYTES_MAX && json_size(&short) < STATUS_BYTES_MAX + 2_000,
            "{}",
            json_size(&short)
        );
        let resources = short["resources"].as_array().unwrap();
        assert!(resources.len() > 2_000, "{}", resources.len());
        let ill =
            |list: &[Value]| list.iter().filter(|one| !is_resource_healthy(one)).cloned().collect::<Vec<_>>();
        assert_eq!(ill(resources), ill(whole["resources"].as_array().unwrap()));
        assert_eq!(ill(resources).len(), 20);
        // The order doesn't change.
        let number =
            |one: &Value| one["name"].as_str().unwrap().split('-').nth(1).unwrap().parse::<u32>().unwrap();
        assert!(resources.is_sorted_by_key(number));
        let results = short["operationState"]["syncResult"]["resources"].as_array().unwrap();
        assert!(results.iter().any(|one| one["name"] == "server-9000"), "the one that failed");
        let conditions = short["conditions"].as_array().unwrap();
        assert_eq!(conditions[0], whole["conditions"][0]);
        let message = conditions[1]["message"].as_str().unwrap();
        for part in [
            format!("{} of 10000 entries of status.resources, ", resources.len()),
            format!("{} of 10000 entries of status.operationState.syncResult.resources", results.len()),
            "of 10000 entries of status.summary.images".to_owned(),
        ] {
            assert!(message.contains(&part), "{part}: {message}");
        }
        assert_eq!(short["sync"], whole["sync"]);
        // The result is deterministic, so it doesn't cause another write.
        let mut again = whole.clone();
        shorten_status(&mut again, STATUS_BYTES_MAX, &APPLICATION_LISTS);
        assert_eq!(again, short);
    }

    #[test]
    fn a_status_that_fits_is_unchanged() {
        for number in [0, 1, 1_500] {
            let whole = status(number);
            let mut short = whole.clone();
            shorten_status(&mut short, STATUS_BYTES_MAX, &APPLICATION_LISTS);
            assert_eq!(short, whole, "{number}");
        }
    }
}
