//! Which sync options hold for an object?
//!
//! Options of the application are compared as whole texts; those in an annotation are trimmed. Both are case-sensitive.

use serde_json::Value;
use tidegate_model::{HandOver, Object, SyncOptions, annotations, managed_fields};

use crate::hooks::Remark;
use crate::text::words;

/// What one option may be, and who may give it.
struct Known {
    name: &'static str,
    values: &'static [&'static str],
    application: bool,
    resource: bool,
}

const fn known(
    name: &'static str,
    values: &'static [&'static str],
    application: bool,
    resource: bool,
) -> Known {
    Known { name, values, application, resource }
}

const SWITCH: &[&str] = &["true", "false"];
const KNOWN: [Known; 14] = [
    known("Validate", SWITCH, true, true),
    known("SkipDryRunOnMissingResource", SWITCH, true, true),
    known("Prune", &["true", "false", "confirm"], true, true),
    known("PruneLast", SWITCH, true, true),
    known("PrunePropagationPolicy", &["background", "foreground", "orphan"], true, false),
    known("Delete", &["true", "false", "confirm"], true, true),
    known("Replace", SWITCH, true, true),
    known("Force", SWITCH, false, true),
    known("ServerSideApply", SWITCH, true, true),
    known("ClientSideApplyMigration", SWITCH, true, false),
    known("ApplyOutOfSyncOnly", SWITCH, true, false),
    known("CreateNamespace", SWITCH, true, false),
    known("RespectIgnoreDifferences", SWITCH, true, false),
    known("FailOnSharedResource", SWITCH, true, false),
];
/// Options that Argo CD gives to an operation and not to an application; whoever asks for a sync gives them the same way.
const OF_OPERATION: [&str; 2] = ["Force", "SkipHooks"];
/// Options whose `=false` on a resource does not undo `=true` on the application.
const NOT_UNDONE: [&str; 3] = ["Replace", "PruneLast", "SkipDryRunOnMissingResource"];

/// Whether an object's annotation gives an option.
pub(crate) fn annotated(object: &Object, option: &str) -> bool {
    object.annotation(annotations::SYNC_OPTIONS).is_some_and(|value| words(value).contains(&option))
}

/// The first value an annotation gives to an option.
fn annotated_value<'o>(object: &'o Object, name: &str) -> Option<&'o str> {
    words(object.annotation(annotations::SYNC_OPTIONS)?).into_iter().find_map(|word| value_of(word, name))
}

fn value_of<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    word.strip_prefix(name)?.strip_prefix('=')
}

/// What becomes of a live object that is no longer in the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PruneOption {
    /// It may be deleted.
    Allowed,
    /// It stays (`Prune=false`).
    Refused,
    /// A person has to confirm (`Prune=confirm`).
    Confirm,
}

/// The `Prune` option of a live object: its annotation overrides the application's, in both directions.
pub(crate) fn prune(live: &Object, options: &SyncOptions) -> PruneOption {
    let default = || options.flags.iter().find_map(|flag| value_of(flag, "Prune"));
    match annotated_value(live, "Prune").or_else(default) {
        Some("false") => PruneOption::Refused,
        Some("confirm") => PruneOption::Confirm,
        _ => PruneOption::Allowed,
    }
}

/// What becomes of a live object whose application is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOption {
    /// It goes with the application.
    Allowed,
    /// It stays (`Delete=false`).
    Refused,
    /// A person has to confirm (`Delete=confirm`).
    Confirm,
}

/// The `Delete` option of a live object: its annotation overrides the application's, in both directions.
pub(crate) fn delete(live: &Object, options: &SyncOptions) -> DeleteOption {
    let default = || options.flags.iter().find_map(|flag| value_of(flag, "Delete"));
    match annotated_value(live, "Delete").or_else(default) {
        Some("false") => DeleteOption::Refused,
        Some("confirm") => DeleteOption::Confirm,
        _ => DeleteOption::Allowed,
    }
}

/// Whether a person has to confirm that an object is pruned, or that it is deleted with its application.
pub fn asks_for_confirmation(object: &Object, options: &SyncOptions) -> bool {
    prune(object, options) == PruneOption::Confirm || delete(object, options) == DeleteOption::Confirm
}

/// Whether the object is pruned after the last wave of the phase.
pub(crate) fn prune_last(live: &Object, options: &SyncOptions) -> bool {
    options.has("PruneLast=true") || annotated(live, "PruneLast=true")
}

/// Whether the object is replaced instead of applied.
pub(crate) fn replace(target: &Object, live: Option<&Object>, options: &SyncOptions) -> bool {
    options.has("Replace=true") || on_either(target, live, "Replace=true")
}

/// Whether the object may be deleted and created again where an update is impossible.
pub(crate) fn force(target: &Object, live: Option<&Object>, options: &SyncOptions) -> bool {
    options.force || on_either(target, live, "Force=true")
}

fn on_either(target: &Object, live: Option<&Object>, option: &str) -> bool {
    annotated(target, option) || live.is_some_and(|live| annotated(live, option))
}

/// Whether the object is applied on the server: its annotation overrides the application's option, in both directions.
pub(crate) fn server_side(target: &Object, options: &SyncOptions) -> bool {
    let refused = annotated(target, "ServerSideApply=false");
    !refused && (annotated(target, "ServerSideApply=true") || !options.has("ServerSideApply=false"))
}

/// Whether unknown fields are refused.
pub(crate) fn validate(target: &Object, options: &SyncOptions) -> bool {
    !options.has("Validate=false") && !annotated(target, "Validate=false")
}

/// Whether a kind that is not served may be met later instead of failing the operation.
pub(crate) fn skip_missing_kind(target: &Object, options: &SyncOptions) -> bool {
    options.has("SkipDryRunOnMissingResource=true") || annotated(target, "SkipDryRunOnMissingResource=true")
}

/// Whether the object will not count for the health of the application: the manifest says so, or the live object does in
/// words that are not ours and so stay.
pub(crate) fn ignores_health(target: &Object, live: Option<&Object>) -> bool {
    let stays = |live: &&Object| {
        let mut writers = live.writers("annotations", annotations::IGNORE_HEALTHCHECK);
        writers.all(|writer| writer != annotations::FIELD_MANAGER)
    };
    let said = target.annotation(annotations::IGNORE_HEALTHCHECK);
    let said = said.or_else(|| live.filter(stays)?.annotation(annotations::IGNORE_HEALTHCHECK));
    said == Some("true")
}

/// The manager whose fields become ours before a server-side apply, so that those which are dropped go away, if it wrote
/// any by updates that do not stay its own ([`HandOver`]): the one the manifest names, else kubectl; else ourselves, who
/// created or replaced the object. What is replaced again is nothing to take over: it loses all that is not given.
pub(crate) fn take_over(target: &Object, live: &Object, options: &SyncOptions) -> Option<String> {
    if !server_side(target, options) || replace(target, Some(live), options) {
        return None;
    }
    let named = target.annotation(annotations::MIGRATION_MANAGER).filter(|name| !name.is_empty());
    let migrates = !options.has("ClientSideApplyMigration=false");
    let other = migrates.then(|| named.unwrap_or(annotations::KUBECTL_MANAGER));
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owns = |manager: &str, entry: &Value| {
        let is = |field: &str, value: &str| entry.get(field).and_then(Value::as_str) == Some(value);
        let main = entry.get("subresource").and_then(Value::as_str).is_none_or(str::is_empty);
        let is_of_it = is("manager", manager) && is("operation", "Update") && main;
        let fields = || managed_fields(entry).unwrap_or_default();
        is_of_it && !HandOver::of(live, manager, &fields()).taken.is_empty()
    };
    let mut managers = other.into_iter().chain([annotations::FIELD_MANAGER]);
    let found = managers.find(|manager| entries.into_iter().flatten().any(|entry| owns(manager, entry)));
    found.map(str::to_owned)
}

/// What is surprising in the options of the application.
pub(crate) fn review_application(options: &SyncOptions) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for flag in &options.flags {
        match find(flag) {
            Some(known) if known.application => {}
            Some(_) => remarks.push((
                "option-without-effect",
                format!("sync option {flag:?} has no effect on an application; write it in annotation {} of a resource", annotations::SYNC_OPTIONS),
            )),
            None => {
                let remark = unknown(flag, |known| known.application, &OF_OPERATION);
                remarks.push(("unknown-sync-option", remark));
            }
        }
    }
    let metadata = !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty();
    if metadata && !options.has("CreateNamespace=true") {
        remarks.push((
            "namespace-metadata-without-create",
            "metadata for the namespace is given, but has no effect without sync option CreateNamespace=true"
                .to_owned(),
        ));
    }
    remarks
}

/// The sync options of an application or an operation that nothing knows, each with what to write instead.
pub fn unknown_options(flags: &[String]) -> Vec<String> {
    let unheard = flags.iter().filter(|flag| find(flag).is_none());
    let problem = |flag: &String| {
        let hint = hint(flag, |known| known.application, &OF_OPERATION);
        format!("sync option {flag:?} is not known; {hint}")
    };
    unheard.map(problem).collect()
}

/// What is surprising in the options of a resource.
pub(crate) fn review_resource(object: &Object, options: &SyncOptions) -> Vec<Remark> {
    let given = words(object.annotation(annotations::SYNC_OPTIONS).unwrap_or_default());
    let mut remarks: Vec<Remark> = KNOWN.iter().filter_map(|known| contradiction(known, &given)).collect();
    for word in given {
        match find(word) {
            Some(known) if !known.resource => remarks.push((
                "option-without-effect",
                format!("sync option {word:?} has no effect on a resource; give it to the application"),
            )),
            Some(known) if is_not_undone(known, word, options) => remarks.push((
                "option-without-effect",
                format!("sync option {word:?} does not undo {}=true of the application", known.name),
            )),
            Some(_) => {}
            None => remarks.push(("unknown-sync-option", unknown(word, |known| known.resource, &[]))),
        }
    }
    remarks
}

/// Two values of one option: which of them holds is nothing to rely on.
fn contradiction(known: &Known, given: &[&str]) -> Option<Remark> {
    let mut given = given.iter().filter(|word| value_of(word, known.name).is_some());
    let (first, other) = (given.next()?, given.next()?);
    Some((
        "contradictory-sync-options",
        format!("sync options {first:?} and {other:?} contradict each other; leave one of them out"),
    ))
}

fn is_not_undone(known: &Known, word: &str, options: &SyncOptions) -> bool {
    NOT_UNDONE.contains(&known.name)
        && value_of(word, known.name) == Some("false")
        && options.has(&format!("{}=true", known.name))
}

fn find(option: &str) -> Option<&'static Known> {
    let (name, value) = option.split_once('=')?;
    KNOWN.iter().find(|known| known.name == name && known.values.contains(&value))
}

fn unknown(option: &str, here: impl Fn(&Known) -> bool, switches: &[&'static str]) -> String {
    format!("sync option {option:?} is not known and is ignored; {}", hint(option, here, switches))
}

/// What to write instead of an option.
fn hint(option: &str, here: impl Fn(&Known) -> bool, switches: &[&'static str]) -> String {
    let name = option.split('=').next().unwrap_or_default().trim();
    let known = KNOWN.iter().filter(|known| here(known)).map(|known| (known.name, known.values));
    let all: Vec<(&str, &[&str])> = known.chain(switches.iter().map(|name| (*name, SWITCH))).collect();
    match all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((name, values)) => {
            let spellings: Vec<String> = values.iter().map(|value| format!("{name}={value}")).collect();
            format!("write {}", spellings.join(" or "))
        }
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            format!("known are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &str) -> Object {
        let mut object =
            Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
                .unwrap();
        object.set_annotation(annotations::SYNC_OPTIONS, value);
        object
    }

    fn application(flags: &[&str]) -> SyncOptions {
        SyncOptions { flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), ..SyncOptions::default() }
    }

    #[test]
    fn prune_option_table() {
        use PruneOption::{Allowed, Confirm, Refused};
        for (annotation, flags, expected) in [
            ("", &[][..], Allowed),
            ("Prune=false", &[], Refused),
            (" Prune=confirm , Replace=true", &[], Confirm),
            ("Prune=false,Prune=confirm", &[], Refused),
            ("", &["Prune=false"], Refused),
            ("", &["Prune=confirm", "Prune=false"], Confirm),
            ("Prune=true", &["Prune=false"], Allowed),
            ("Prune=false", &["Prune=confirm"], Refused),
            ("prune=false", &[], Allowed),
            ("PruneLast=true", &[], Allowed),
        ] {
            assert_eq!(prune(&object(annotation), &application(flags)), expected, "{annotation} {flags:?}");
        }
    }

    #[test]
    fn options_come_from_the_application_the_target_or_the_live_object() {
        let (none, empty) = (application(&[]), object(""));
        assert!(replace(&object("Replace=true"), None, &none));
        assert!(replace(&empty, Some(&object("Replace=true")), &none));
        assert!(replace(&empty, None, &application(&["Replace=true"])));
        assert!(!replace(&empty, Some(&empty), &application(&[" Replace=true"])), "compared as a whole text");
        assert!(force(&object(" Force=true "), None, &none));
        assert!(force(&empty, Some(&object("Force=true")), &none));
        assert!(!force(&empty, None, &application(&["Force=true"])), "not an option of the application");
        assert!(
            !validate(&object("Validate=false"), &none)
                && !validate(&empty, &application(&["Validate=false"]))
        );
        assert!(validate(&empty, &none));
        assert!(skip_missing_kind(&object("SkipDryRunOnMissingResource=true"), &none));
        assert!(
            prune_last(&object("PruneLast=true"), &none)
                && prune_last(&empty, &application(&["PruneLast=true"]))
        );
    }

    #[test]
    fn a_resource_overrides_how_the_application_is_applied() {
        for (resource, flags, expected) in [
            ("", &[][..], true),
            ("", &["ServerSideApply=true"], true),
            ("", &["ServerSideApply=false"], false),
            ("ServerSideApply=true", &["ServerSideApply=false"], true),
            ("ServerSideApply=false", &["ServerSideApply=true"], false),
            ("ServerSideApply=false,ServerSideApply=true", &[], false),
        ] {
            assert_eq!(server_side(&object(resource), &application(flags)), expected, "{resource} {flags:?}");
        }
    }

    #[test]
    fn health_is_ignored_where_that_is_said_and_stays_so() {
        let with = |value: &str, writer: &str| {
            let mut object = object("");
            if !value.is_empty() {
                object.set_annotation(annotations::IGNORE_HEALTHCHECK, value);
            }
            let fields = json!({"f:metadata": {"f:annotations": {format!("f:{}", annotations::IGNORE_HEALTHCHECK): {}}}});
            object
                .metadata_mut()
                .insert("managedFields".to_owned(), json!([{"manager": writer, "fieldsV1": fields}]));
            object
        };
        for (target, live, writer, ignored) in [
            ("true", "", "", true),
            ("True", "", "", false),
            ("", "", "", false),
            ("", "true", "kubectl", true),
            ("", "true", "tidegate", false),
            ("false", "true", "kubectl", false),
        ] {
            let live = with(live, writer);
            assert_eq!(ignores_health(&with(target, ""), Some(&live)), ignored, "{target} {live:?}");
        }
        assert!(ignores_health(&with("true", ""), None));
    }

    #[test]
    fn misspelt_options_are_noticed() {
        let codes = |remarks: Vec<Remark>| remarks.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
        for (value, flags, expected) in [
            ("Replace=true,ServerSideApply=false,Prune=confirm", &[][..], &[][..]),
            ("replace=true", &[], &["unknown-sync-option"]),
            ("Replace=yes,Foo", &[], &["unknown-sync-option", "unknown-sync-option"]),
            ("CreateNamespace=true", &[], &["option-without-effect"]),
            ("Replace=false", &[], &[]),
            ("Prune=confirm,Prune=false", &[], &["contradictory-sync-options"]),
            ("Prune=false, Prune=false", &[], &[]),
            ("Replace=false", &["Replace=true"], &["option-without-effect"]),
        ] {
            assert_eq!(
                codes(review_resource(&object(value), &application(flags))),
                expected,
                "{value} {flags:?}"
            );
        }
        for (flags, expected) in [
            (&["CreateNamespace=true", "PrunePropagationPolicy=orphan", "Prune=confirm"][..], &[][..]),
            (&["Force=true"], &["option-without-effect"]),
            (&["Force=yes", "skiphooks=true"], &["unknown-sync-option", "unknown-sync-option"]),
            (&[" Replace=true", "PruneLast"], &["unknown-sync-option", "unknown-sync-option"]),
            (&["ServerSideApply=false"], &[]),
        ] {
            assert_eq!(codes(review_application(&application(flags))), expected, "{flags:?}");
        }
        for (flag, hint) in [
            ("Foo=true", "known are Validate, "),
            ("Foo=true", ", FailOnSharedResource, Force, SkipHooks"),
            ("Force=yes", "write Force=true or Force=false"),
            ("skiphooks=true", "write SkipHooks=true or SkipHooks=false"),
        ] {
            let message = review_application(&application(&[flag])).remove(0).1;
            assert!(message.contains(hint), "{flag}: {message}");
        }
        let message = review_resource(&object("replace=true"), &application(&[])).remove(0).1;
        assert_eq!(
            message,
            "sync option \"replace=true\" is not known and is ignored; write Replace=true or Replace=false"
        );
    }
}
