//! The status that is written into a resource, which has a limit of size: of long lists only a part is written, and it is
//! said of how many.

use serde_json::{Value, json};

/// A status of more bytes is shortened: its long lists together may have as many. API servers and their store take 1.5 MiB of
/// a resource, and it has a specification, annotations, and the names of who manages each field.
pub(crate) const STATUS_BYTES_MAX: usize = 900 << 10;
/// The condition that says so.
pub(crate) const SHORTENED: &str = "StatusShortenedWarning";
/// Where a list is, how many eighths of all bytes it may have, and whether an entry of it is as it should be.
type List = (&'static str, usize, fn(&Value) -> bool);
const EIGHTHS: usize = 8;

/// What of a status may be long.
pub(crate) struct Lists {
    /// The lists.
    pub lists: &'static [List],
    /// Its conditions say whether they are true, and why.
    pub has_reasons: bool,
    /// The command that shows all.
    pub command: &'static str,
}

/// Those of an application.
pub(super) const OF_APPLICATION: Lists = Lists {
    lists: &[
        ("/resources", 4, is_resource_well),
        ("/operationState/syncResult/resources", 2, is_result_well),
        ("/summary/images", 1, |_| true),
        ("/summary/externalURLs", 1, |_| true),
    ],
    has_reasons: false,
    command: "tidegate app get",
};

/// Shortens a status that is too large for a resource; what is not as it should be stays first.
pub(crate) fn shorten(status: &mut Value, bytes_max: usize, lists: &Lists) {
    if size(status) <= bytes_max {
        return;
    }
    let mut said = Vec::new();
    for (pointer, eighths, is_well) in lists.lists {
        let most = bytes_max / EIGHTHS * eighths;
        let Some(list) = status.pointer_mut(pointer).and_then(Value::as_array_mut) else { continue };
        let all = list.len();
        shorten_list(list, most, *is_well);
        if list.len() < all {
            let name = pointer.trim_start_matches('/').replace('/', ".");
            said.push(format!("{} of {all} entries of status.{name}", list.len()));
        }
    }
    if said.is_empty() {
        return;
    }
    let message = format!(
        "the resource would be too large: it has {}, those first that are not as they should be; `{}` and the API have all",
        said.join(", "),
        lists.command
    );
    let mut condition = json!({"type": SHORTENED, "message": message});
    if let (true, Some(fields)) = (lists.has_reasons, condition.as_object_mut()) {
        fields.extend([("status".to_owned(), json!("True")), ("reason".to_owned(), json!("TooLarge"))]);
    }
    if let Some(status) = status.as_object_mut() {
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        conditions.as_array_mut().into_iter().for_each(|conditions| conditions.push(condition.clone()));
    }
}

/// Keeps as many as fit, in their order.
fn shorten_list(list: &mut Vec<Value>, most: usize, is_well: fn(&Value) -> bool) {
    let sizes: Vec<usize> = list.iter().map(|one| size(one).saturating_add(1)).collect();
    let mut left = most;
    let mut kept = vec![false; list.len()];
    for wanted in [false, true] {
        for ((one, size), is_kept) in list.iter().zip(&sizes).zip(&mut kept) {
            if is_well(one) == wanted && *size <= left {
                left = left.saturating_sub(*size);
                *is_kept = true;
            }
        }
    }
    let mut kept = kept.into_iter();
    list.retain(|_| kept.next().unwrap_or_default());
}

fn size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

pub(crate) fn is_resource_well(one: &Value) -> bool {
    let text = |pointer| one.pointer(pointer).and_then(Value::as_str);
    text("/status") == Some("Synced")
        && matches!(text("/health/status"), None | Some("Healthy"))
        && one.get("requiresPruning").is_none()
}

fn is_result_well(one: &Value) -> bool {
    let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
    text("status") != "SyncFailed" && !["Failed", "Error", "Running"].contains(&text("hookPhase"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]
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
    fn ten_thousand_resources_fit_and_what_is_wrong_is_among_them() {
        let whole = status(10_000);
        let mut short = whole.clone();
        shorten(&mut short, STATUS_BYTES_MAX, &OF_APPLICATION);
        assert!(
            size(&whole) > 2 * STATUS_BYTES_MAX && size(&short) < STATUS_BYTES_MAX + 2_000,
            "{}",
            size(&short)
        );
        let kept = short["resources"].as_array().unwrap();
        assert!(kept.len() > 2_000, "{}", kept.len());
        let ill =
            |list: &[Value]| list.iter().filter(|one| !is_resource_well(one)).cloned().collect::<Vec<_>>();
        assert_eq!(ill(kept), ill(whole["resources"].as_array().unwrap()));
        assert_eq!(ill(kept).len(), 20);
        // In their order.
        let number =
            |one: &Value| one["name"].as_str().unwrap().split('-').nth(1).unwrap().parse::<u32>().unwrap();
        assert!(kept.is_sorted_by_key(number));
        let results = short["operationState"]["syncResult"]["resources"].as_array().unwrap();
        assert!(results.iter().any(|one| one["name"] == "server-9000"), "the one that failed");
        let conditions = short["conditions"].as_array().unwrap();
        assert_eq!(conditions[0], whole["conditions"][0]);
        let message = conditions[1]["message"].as_str().unwrap();
        for part in [
            format!("{} of 10000 entries of status.resources, ", kept.len()),
            format!("{} of 10000 entries of status.operationState.syncResult.resources", results.len()),
            "of 10000 entries of status.summary.images".to_owned(),
        ] {
            assert!(message.contains(&part), "{part}: {message}");
        }
        assert_eq!(short["sync"], whole["sync"]);
        // The same again, so that nothing is written for it.
        let mut again = whole.clone();
        shorten(&mut again, STATUS_BYTES_MAX, &OF_APPLICATION);
        assert_eq!(again, short);
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        for number in [0, 1, 1_500] {
            let whole = status(number);
            let mut short = whole.clone();
            shorten(&mut short, STATUS_BYTES_MAX, &OF_APPLICATION);
            assert_eq!(short, whole, "{number}");
        }
    }
}
