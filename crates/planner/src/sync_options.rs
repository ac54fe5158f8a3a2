//! Sync options of an object.
//!
//! An application's options are compared as whole strings, an annotation's are trimmed first. Both are
//! case-sensitive.

use serde_json::Value;
use tidegate_model::field_handover::MIGRATION_OPTION;
use tidegate_model::{
    FieldHandover, Object, SyncOptions, SyncRequest, annotations, can_be_taken_over, managed_fields,
};

use crate::hooks::Remark;
use crate::known_kinds::is_crd;
use crate::text::split_list;

/// A known option, with its valid values and where it is allowed.
struct KnownOption {
    name: &'static str,
    values: &'static [&'static str],
    is_for_application: bool,
    is_for_resource: bool,
}

const fn known_option(
    name: &'static str,
    values: &'static [&'static str],
    application: bool,
    resource: bool,
) -> KnownOption {
    KnownOption { name, values, is_for_application: application, is_for_resource: resource }
}

const SWITCH_VALUES: &[&str] = &["true", "false"];
const KNOWN_OPTIONS: [KnownOption; 14] = [
    known_option("Validate", SWITCH_VALUES, true, true),
    known_option("SkipDryRunOnMissingResource", SWITCH_VALUES, true, true),
    known_option("Prune", &["true", "false", "confirm"], true, true),
    known_option("PruneLast", SWITCH_VALUES, true, true),
    known_option("PrunePropagationPolicy", &["background", "foreground", "orphan"], true, false),
    known_option("Delete", &["true", "false", "confirm"], true, true),
    known_option("Replace", SWITCH_VALUES, true, true),
    known_option("Force", SWITCH_VALUES, false, true),
    known_option("ServerSideApply", &["true", "false", "auto"], true, true),
    known_option("ClientSideApplyMigration", SWITCH_VALUES, true, false),
    known_option("ApplyOutOfSyncOnly", SWITCH_VALUES, true, false),
    known_option("CreateNamespace", SWITCH_VALUES, true, false),
    known_option("RespectIgnoreDifferences", SWITCH_VALUES, true, false),
    known_option("FailOnSharedResource", SWITCH_VALUES, true, false),
];
const SERVER_SIDE_AUTO: &str = "ServerSideApply=auto";
/// Options that Argo CD accepts for an operation but not for an application. In Tidegate, they are part of
/// the sync request too.
const OPERATION_OPTIONS: [&str; 2] = ["Force", "SkipHooks"];
/// Options that a resource can't turn off with `=false` if the application sets `=true`.
const NOT_OVERRIDABLE: [&str; 3] = ["Replace", "PruneLast", "SkipDryRunOnMissingResource"];

/// Returns true if an object's annotation has an option.
pub(crate) fn has_annotated_option(object: &Object, option: &str) -> bool {
    object.annotation(annotations::SYNC_OPTIONS).is_some_and(|value| split_list(value).contains(&option))
}

/// Returns the first value of an option in an object's annotation.
fn annotated_value<'o>(object: &'o Object, name: &str) -> Option<&'o str> {
    split_list(object.annotation(annotations::SYNC_OPTIONS)?)
        .into_iter()
        .find_map(|word| option_value(word, name))
}

fn option_value<'w>(word: &'w str, name: &str) -> Option<&'w str> {
    word.strip_prefix(name)?.strip_prefix('=')
}

/// Treatment of a live object that is gone from the manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PruneOption {
    /// The object may be deleted.
    Allowed,
    /// The object is kept (`Prune=false`).
    Denied,
    /// A user must confirm the deletion (`Prune=confirm`).
    Confirm,
}

/// Returns the `Prune` option for a live object. The object's annotation overrides the application's option,
/// in both directions.
pub(crate) fn prune_option(live: &Object, options: &SyncOptions) -> PruneOption {
    let default = || options.flags.iter().find_map(|flag| option_value(flag, "Prune"));
    match annotated_value(live, "Prune").or_else(default) {
        Some("false") => PruneOption::Denied,
        Some("confirm") => PruneOption::Confirm,
        _ => PruneOption::Allowed,
    }
}

/// Treatment of a live object whose application is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOption {
    /// The object is deleted with the application.
    Allowed,
    /// The object is kept (`Delete=false`).
    Denied,
    /// A user must confirm the deletion (`Delete=confirm`).
    Confirm,
}

/// Returns the `Delete` option for a live object. The object's annotation overrides the application's option,
/// in both directions.
pub(crate) fn delete_option(live: &Object, options: &SyncOptions) -> DeleteOption {
    let default = || options.flags.iter().find_map(|flag| option_value(flag, "Delete"));
    match annotated_value(live, "Delete").or_else(default) {
        Some("false") => DeleteOption::Denied,
        Some("confirm") => DeleteOption::Confirm,
        _ => DeleteOption::Allowed,
    }
}

/// Returns true if a user must confirm before the object is pruned, or deleted with its application.
pub fn requires_confirmation(object: &Object, options: &SyncOptions) -> bool {
    prune_option(object, options) == PruneOption::Confirm
        || delete_option(object, options) == DeleteOption::Confirm
}

/// Returns true if the object is pruned after the last wave of the phase (`PruneLast=true`).
pub(crate) fn is_pruned_last(live: &Object, options: &SyncOptions) -> bool {
    options.has("PruneLast=true") || has_annotated_option(live, "PruneLast=true")
}

/// Returns true if the object is replaced instead of applied.
pub(crate) fn is_replaced(target: &Object, live: Option<&Object>, options: &SyncOptions) -> bool {
    options.has("Replace=true") || has_option_on_either(target, live, "Replace=true")
}

/// Returns true if the object may be deleted and recreated when it can't be updated (`Force=true`).
pub(crate) fn is_forced(target: &Object, live: Option<&Object>, options: &SyncOptions) -> bool {
    options.force || has_option_on_either(target, live, "Force=true")
}

fn has_option_on_either(target: &Object, live: Option<&Object>, option: &str) -> bool {
    has_annotated_option(target, option) || live.is_some_and(|live| has_annotated_option(live, option))
}

/// Returns true if the object is written by server-side apply. Its annotation overrides the application's
/// option, in both directions.
pub(crate) fn is_server_side(target: &Object, options: &SyncOptions) -> bool {
    let refused = has_annotated_option(target, "ServerSideApply=false");
    !refused
        && (has_annotated_option(target, "ServerSideApply=true") || !options.has("ServerSideApply=false"))
}

/// Returns true if the object may be written by client-side apply after the server has rejected a server-side
/// apply (`ServerSideApply=auto`). Its annotation overrides the application's option.
pub fn can_fall_back_to_client_side(target: &Object, options: &SyncOptions) -> bool {
    is_server_side(target, options)
        && !has_annotated_option(target, "ServerSideApply=true")
        && (has_annotated_option(target, SERVER_SIDE_AUTO)
            || (options.has(SERVER_SIDE_AUTO) && !options.has("ServerSideApply=true")))
}

/// Returns true if unknown fields in the object are rejected.
pub(crate) fn is_validated(target: &Object, options: &SyncOptions) -> bool {
    !options.has("Validate=false") && !has_annotated_option(target, "Validate=false")
}

/// Returns true if a missing kind doesn't fail the operation. The task is retried later.
pub(crate) fn skips_missing_kind(target: &Object, options: &SyncOptions) -> bool {
    options.has("SkipDryRunOnMissingResource=true")
        || has_annotated_option(target, "SkipDryRunOnMissingResource=true")
}

/// Returns true if the object doesn't count towards the application's health. This is set in the manifest, or
/// by a live annotation that Tidegate doesn't manage and therefore keeps.
pub(crate) fn ignores_health(target: &Object, live: Option<&Object>) -> bool {
    let stays = |live: &&Object| {
        let mut writers = live.field_managers_of("annotations", annotations::IGNORE_HEALTHCHECK);
        writers.all(|writer| writer != annotations::FIELD_MANAGER)
    };
    let said = target.annotation(annotations::IGNORE_HEALTHCHECK);
    let said = said.or_else(|| live.filter(stays)?.annotation(annotations::IGNORE_HEALTHCHECK));
    said == Some("true")
}

/// Returns the managers whose fields Tidegate takes over before a server-side apply, so that fields removed
/// from the manifest are removed from the cluster as well:
///
/// - the manager named in the manifest or the application (default: kubectl): fields that it wrote with
///   updates;
/// - Argo CD's controller, if it marked the object as part of this application: fields that it wrote with
///   applies, client-side or server-side;
/// - Tidegate itself: fields that it wrote with updates when it created or replaced the object.
///
/// Fields that their manager keeps ([`FieldHandover`]) don't count. A sync that replaces the object removes
/// all fields that aren't in the manifest, so it doesn't need a takeover.
pub fn managers_to_take_over(target: &Object, live: &Object, request: &SyncRequest) -> Vec<String> {
    let options = &request.options;
    if !is_server_side(target, options) || is_replaced(target, Some(live), options) {
        return Vec::new();
    }
    let migrates = !options.has("ClientSideApplyMigration=false");
    let given = || options.flags.iter().find_map(|flag| option_value(flag, MIGRATION_OPTION));
    let named = target.annotation(annotations::MIGRATION_MANAGER).or_else(given);
    let named = named.filter(|name| !name.is_empty()).unwrap_or(annotations::KUBECTL_MANAGER);
    let is_applied = live.annotation(annotations::LAST_APPLIED).is_some();
    let counts = |manager: &str, entry: &Value| {
        let is_update = entry.get("operation").and_then(Value::as_str) == Some("Update");
        match manager {
            annotations::FIELD_MANAGER => true,
            // Other writes, such as adding a finalizer, don't come from a manifest.
            argo_cd if annotations::ARGO_CD_MANAGERS.contains(&argo_cd) => {
                !is_update || (migrates && is_applied)
            }
            _ => migrates,
        }
    };
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owns = |manager: &str, entry: &Value| {
        let fields = || managed_fields(entry).unwrap_or_default();
        can_be_taken_over(entry, manager)
            && counts(manager, entry)
            && !FieldHandover::split(live, manager, &fields()).transferred.is_empty()
    };
    let is_ours =
        || request.tracking.is_owner(&request.application, live) || is_tracked_by_label_only(live, request);
    let argo_cd = annotations::ARGO_CD_MANAGERS.into_iter().filter(|manager| *manager != named);
    let mut managers: Vec<&str> = [named].into_iter().chain(argo_cd).collect();
    managers.retain(|manager| *manager != annotations::FIELD_MANAGER);
    managers.push(annotations::FIELD_MANAGER);
    managers.retain(|manager| entries.into_iter().flatten().any(|entry| owns(manager, entry)));
    managers.retain(|manager| !annotations::ARGO_CD_MANAGERS.contains(manager) || is_ours());
    managers.into_iter().map(str::to_owned).collect()
}

/// Returns the managers whose client-side applies record the last-applied manifest.
pub(crate) fn client_side_managers() -> Vec<String> {
    use annotations::{ARGO_CD_MANAGERS, FIELD_MANAGER, KUBECTL_MANAGER};
    let all = [KUBECTL_MANAGER, FIELD_MANAGER].into_iter().chain(ARGO_CD_MANAGERS);
    all.map(str::to_owned).collect()
}

/// Returns true if only the label marks an object as part of the application, so Argo CD uses a different
/// tracking method.
fn is_tracked_by_label_only(live: &Object, request: &SyncRequest) -> bool {
    let SyncRequest { tracking, application, .. } = request;
    live.annotation(annotations::TRACKING_ID).is_none()
        && live.annotation(annotations::INSTALLATION_ID).unwrap_or_default() == tracking.installation
        && !is_crd(live.group(), live.kind())
        && live.label(&tracking.label) == Some(application.as_str())
        && live
            .field_managers_of("labels", &tracking.label)
            .any(|writer| annotations::ARGO_CD_MANAGERS.contains(&writer))
}

/// Returns remarks about the application's sync options.
pub(crate) fn review_application(options: &SyncOptions) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for flag in &options.flags {
        match find_option(flag) {
            Some(known) if known.is_for_application => {}
            None if is_manager_option(flag) => {}
            Some(_) => remarks.push((
                "option-without-effect",
                format!("sync option {flag:?} has no effect on an application; set it in the {} annotation of a resource", annotations::SYNC_OPTIONS),
            )),
            None => {
                let remark = unknown_option_message(flag, |known| known.is_for_application, &OPERATION_OPTIONS);
                remarks.push(("unknown-sync-option", remark));
            }
        }
    }
    let metadata = !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty();
    if metadata && !options.has("CreateNamespace=true") {
        remarks.push((
            "namespace-metadata-without-create",
            "namespace metadata has no effect without the sync option CreateNamespace=true".to_owned(),
        ));
    }
    remarks
}

/// Returns a message for each unknown sync option of an application or operation, with a suggestion.
pub fn unknown_options(flags: &[String]) -> Vec<String> {
    let unheard = flags.iter().filter(|flag| find_option(flag).is_none() && !is_manager_option(flag));
    let problem = |flag: &String| {
        let hint = suggest_option(flag, |known| known.is_for_application, &OPERATION_OPTIONS);
        format!("unknown sync option {flag:?}; {hint}")
    };
    unheard.map(problem).collect()
}

/// Returns remarks about a resource's sync options.
pub(crate) fn review_resource(object: &Object, options: &SyncOptions) -> Vec<Remark> {
    let given = split_list(object.annotation(annotations::SYNC_OPTIONS).unwrap_or_default());
    let mut remarks: Vec<Remark> =
        KNOWN_OPTIONS.iter().filter_map(|known| find_contradiction(known, &given)).collect();
    for word in given {
        match find_option(word) {
            Some(known) if !known.is_for_resource => remarks.push((
                "option-without-effect",
                format!(
                    "sync option {word:?} has no effect on a resource; set the option on the application"
                ),
            )),
            Some(known) if is_overridden_without_effect(known, word, options) => remarks.push((
                "option-without-effect",
                format!("sync option {word:?} does not override the application's {}=true", known.name),
            )),
            Some(_) => {}
            None => remarks.push((
                "unknown-sync-option",
                unknown_option_message(word, |known| known.is_for_resource, &[]),
            )),
        }
    }
    remarks
}

/// Returns a remark if an option has two values, because it is undefined which one wins.
fn find_contradiction(known: &KnownOption, given: &[&str]) -> Option<Remark> {
    let mut given = given.iter().filter(|word| option_value(word, known.name).is_some());
    let (first, other) = (given.next()?, given.next()?);
    Some((
        "contradictory-sync-options",
        format!("sync options {first:?} and {other:?} contradict each other; remove one of them"),
    ))
}

fn is_overridden_without_effect(known: &KnownOption, word: &str, options: &SyncOptions) -> bool {
    NOT_OVERRIDABLE.contains(&known.name)
        && option_value(word, known.name) == Some("false")
        && options.has(&format!("{}=true", known.name))
}

fn is_manager_option(option: &str) -> bool {
    option_value(option, MIGRATION_OPTION).is_some_and(|name| !name.is_empty())
}

fn find_option(option: &str) -> Option<&'static KnownOption> {
    let (name, value) = option.split_once('=')?;
    KNOWN_OPTIONS.iter().find(|known| known.name == name && known.values.contains(&value))
}

fn unknown_option_message(
    option: &str,
    here: impl Fn(&KnownOption) -> bool,
    switches: &[&'static str],
) -> String {
    format!("unknown sync option {option:?} is ignored; {}", suggest_option(option, here, switches))
}

/// Returns a suggestion for replacing an invalid option.
fn suggest_option(option: &str, here: impl Fn(&KnownOption) -> bool, switches: &[&'static str]) -> String {
    let name = option.split('=').next().unwrap_or_default().trim();
    let known = KNOWN_OPTIONS.iter().filter(|known| here(known)).map(|known| (known.name, known.values));
    let all: Vec<(&str, &[&str])> = known.chain(switches.iter().map(|name| (*name, SWITCH_VALUES))).collect();
    match all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((name, values)) => {
            let spellings: Vec<String> = values.iter().map(|value| format!("{name}={value}")).collect();
            format!("use {}", spellings.join(" or "))
        }
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            format!("use one of {}", names.join(", "))
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
        use PruneOption::{Allowed, Confirm, Denied};
        for (annotation, flags, expected) in [
            ("", &[][..], Allowed),
            ("Prune=false", &[], Denied),
            (" Prune=confirm , Replace=true", &[], Confirm),
            ("Prune=false,Prune=confirm", &[], Denied),
            ("", &["Prune=false"], Denied),
            ("", &["Prune=confirm", "Prune=false"], Confirm),
            ("Prune=true", &["Prune=false"], Allowed),
            ("Prune=false", &["Prune=confirm"], Denied),
            ("prune=false", &[], Allowed),
            ("PruneLast=true", &[], Allowed),
        ] {
            assert_eq!(
                prune_option(&object(annotation), &application(flags)),
                expected,
                "{annotation} {flags:?}"
            );
        }
    }

    #[test]
    fn options_come_from_the_application_the_target_or_the_live_object() {
        let (none, empty) = (application(&[]), object(""));
        assert!(is_replaced(&object("Replace=true"), None, &none));
        assert!(is_replaced(&empty, Some(&object("Replace=true")), &none));
        assert!(is_replaced(&empty, None, &application(&["Replace=true"])));
        assert!(
            !is_replaced(&empty, Some(&empty), &application(&[" Replace=true"])),
            "compared as a whole text"
        );
        assert!(is_forced(&object(" Force=true "), None, &none));
        assert!(is_forced(&empty, Some(&object("Force=true")), &none));
        assert!(!is_forced(&empty, None, &application(&["Force=true"])), "not an option of the application");
        assert!(
            !is_validated(&object("Validate=false"), &none)
                && !is_validated(&empty, &application(&["Validate=false"]))
        );
        assert!(is_validated(&empty, &none));
        assert!(skips_missing_kind(&object("SkipDryRunOnMissingResource=true"), &none));
        assert!(
            is_pruned_last(&object("PruneLast=true"), &none)
                && is_pruned_last(&empty, &application(&["PruneLast=true"]))
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
            assert_eq!(
                is_server_side(&object(resource), &application(flags)),
                expected,
                "{resource} {flags:?}"
            );
        }
    }

    #[test]
    fn health_is_ignored_by_the_annotation_and_stays_ignored() {
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
    fn only_auto_falls_back_to_client_side_apply() {
        for (annotation, flags, expected) in [
            ("", &[][..], false),
            ("", &["ServerSideApply=auto"], true),
            ("", &["ServerSideApply=auto", "ServerSideApply=true"], false),
            ("", &["ServerSideApply=auto", "ServerSideApply=false"], false),
            ("ServerSideApply=auto", &[], true),
            ("ServerSideApply=auto", &["ServerSideApply=true"], true),
            ("ServerSideApply=true", &["ServerSideApply=auto"], false),
            ("ServerSideApply=false", &["ServerSideApply=auto"], false),
        ] {
            let falls_back = can_fall_back_to_client_side(&object(annotation), &application(flags));
            assert_eq!(falls_back, expected, "{annotation} {flags:?}");
        }
        assert_eq!(review_application(&application(&["ServerSideApply=auto"])), []);
    }

    #[test]
    fn misspelled_options_are_reported() {
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
            ("Foo=true", "use one of Validate, "),
            ("Foo=true", ", FailOnSharedResource, Force, SkipHooks"),
            ("Force=yes", "use Force=true or Force=false"),
            ("skiphooks=true", "use SkipHooks=true or SkipHooks=false"),
        ] {
            let message = review_application(&application(&[flag])).remove(0).1;
            assert!(message.contains(hint), "{flag}: {message}");
        }
        let message = review_resource(&object("replace=true"), &application(&[])).remove(0).1;
        assert_eq!(
            message,
            "unknown sync option \"replace=true\" is ignored; use Replace=true or Replace=false"
        );
    }
}
