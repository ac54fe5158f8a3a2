//! Applications as human-readable text, and as lists for programs.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::operation::request_reason;
use tidegate_application::sources::revisions_of_fields;
use tidegate_application::{automated, deletion, refresh};
use tidegate_model::argo::{Application, ApplicationSource, ResourceStatus, RevisionHistory, Time};
use tidegate_model::{HealthStatus, OperationOutcome};
use tidegate_state::summaries::SyncWindowSummary;

use super::{Style, Text, one_line, table};

/// Number of digits in a short commit hash.
const SHORT_COMMIT_DIGITS: usize = 7;
/// Maximum number of characters of a health reason in a list.
const LISTED_REASON_MAX: usize = 60;

/// Returns a list like `kubectl get -o json`.
pub fn document(applications: &[impl Serialize]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": applications})
}

/// Formats one line for each application.
pub fn list(applications: &[impl Borrow<Application>], width: Option<u16>) -> Text {
    let rows = applications.iter().map(|one| {
        let one = one.borrow();
        let source = one.sources().first().cloned().unwrap_or_default();
        [
            display_name(one),
            cluster_name(one),
            one.spec.destination.namespace.clone(),
            text_or(&one.spec.project, "default"),
            sync_status(one),
            health_with_reason(one, LISTED_REASON_MAX),
            describe_policy(one).to_owned(),
            format_conditions(one),
            append_other_count(source.repo_url.clone(), one),
            source_path(&source).to_owned(),
            source.target_revision,
        ]
    });
    let heads = [
        "NAME",
        "CLUSTER",
        "NAMESPACE",
        "PROJECT",
        "STATUS",
        "HEALTH",
        "SYNCPOLICY",
        "CONDITIONS",
        "REPO",
        "PATH",
        "TARGET",
    ];
    table(heads, rows, width)
}

/// Formats all information about an application, including the state of its sync windows.
pub fn show(application: &Application, window: Option<&SyncWindowSummary>, width: Option<u16>) -> Text {
    let status = &application.status;
    let mut text = Text::new();
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            text.add(Style::Dim, format!("{label:<16}"));
            text.add(Style::Plain, one_line(&value));
            text.end_line();
        }
    };
    line("Name:", display_name(application));
    line("Project:", text_or(&application.spec.project, "default"));
    line("Destination:", format!("{} {}", cluster_name(application), application.spec.destination.namespace));
    for source in application.sources() {
        line("Source:", format_source(source));
    }
    line("Sync Policy:", describe_policy(application).to_owned());
    line("Sync Window:", window.map(ToString::to_string).unwrap_or_default());
    line("Depends On:", application.annotation(DEPENDS_ON).unwrap_or_default().to_owned());
    line("Deleting:", describe_deletion(application));
    line("Skipped:", refresh::skip_reason(application).unwrap_or_default());
    let revision =
        status.sync.as_ref().map(|sync| shorten_commit(&sync.revision, &sync.revisions)).unwrap_or_default();
    let targets = application.sources().iter().map(|source| text_or(&source.target_revision, "HEAD"));
    let target = targets.collect::<Vec<_>>().join(" ");
    let revision = if revision.is_empty() { revision } else { format!(" ({revision})") };
    line("Sync Status:", format!("{} with {target}{revision}", sync_status(application)));
    line("Health Status:", health_with_reason(application, usize::MAX));
    line("Compared:", format_time(status.reconciled_at));
    if let Some(last) = &status.operation_state {
        let by = match last.operation.initiated_by.name() {
            "" => String::new(),
            by => format!(" by {by}"),
        };
        let dry = if last.operation.is_dry_run() { " (dry run)" } else { "" };
        let outcome = OperationOutcome::from_phase(last.phase, &last.message);
        line("Operation:", format!("{outcome}{dry}{by}: {}", last.message));
        line("  Reason:", request_reason(&last.operation).to_owned());
        let result = last.sync_result.as_ref();
        let revision =
            result.map(|result| shorten_commit(&result.revision, &result.revisions)).unwrap_or_default();
        line("  Revision:", revision);
        line("  Started:", format_time(Some(last.started_at)));
        line("  Finished:", format_time(last.finished_at));
    }
    if !status.conditions.is_empty() {
        text.end_line();
        let rows = status
            .conditions
            .iter()
            .map(|one| [one.kind.to_string(), one.message.clone(), format_time(one.last_transition_time)]);
        text.append(table(["CONDITION", "MESSAGE", "SINCE"], rows, width));
    }
    let reasons = problem_reasons(application);
    if !reasons.is_empty() {
        text.end_line();
        text.append(table(["OBJECT", "STATE", "REASON"], reasons, width));
    }
    if !status.resources.is_empty() {
        text.end_line();
        text.append(table(
            ["GROUP", "KIND", "NAMESPACE", "NAME", "WAVE", "STATUS", "HEALTH"],
            status.resources.iter().map(resource_row),
            width,
        ));
    }
    text
}

/// Returns an application's problems: failures in the last operation, and unhealthy objects.
fn problem_reasons(application: &Application) -> Vec<[String; 3]> {
    let status = &application.status;
    let result = status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let failed = result.into_iter().flat_map(|result| &result.resources).filter_map(|one| {
        let state = match one.hook_phase.as_str() {
            phase @ ("Failed" | "Error") if !one.hook_type.is_empty() => {
                format!("{} hook {phase}", one.hook_type)
            }
            _ if one.status == "SyncFailed" => one.status.clone(),
            _ => return None,
        };
        Some([object_name(&one.kind, &one.namespace, &one.name), state, one.message.clone()])
    });
    let ill = status.resources.iter().filter_map(|one| {
        let health = one.health.as_ref().filter(|health| health.status != HealthStatus::Healthy)?;
        let is_said = health.status != HealthStatus::Missing || !health.message.is_empty();
        let state = format!("{:?}", health.status);
        is_said.then(|| [object_name(&one.kind, &one.namespace, &one.name), state, health.message.clone()])
    });
    failed.chain(ill).collect()
}

/// Returns an object's wave. For a pruned object, that is the wave that deletes it.
fn wave_number(one: &ResourceStatus) -> String {
    match one.rest.get("pruneWave").and_then(Value::as_i64) {
        Some(pruned) => format!("{} (pruned in {pruned})", one.sync_wave),
        None => one.sync_wave.to_string(),
    }
}

fn object_name(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Formats the successful syncs, oldest first.
pub fn history(entries: &[RevisionHistory], width: Option<u16>) -> Text {
    let rows = entries.iter().map(|one| {
        let by = one.initiated_by.name();
        let revision = revisions_of_fields(&one.revision, &one.revisions).join(" ");
        [one.id.to_string(), format_time(Some(one.deployed_at)), revision, by.to_owned()]
    });
    table(["ID", "DATE", "REVISION", "BY"], rows, width)
}

fn resource_row(one: &ResourceStatus) -> [String; 7] {
    let status = one.status.map(|status| status.to_string()).unwrap_or_default();
    let pruned = if one.requires_pruning { " (requires pruning)" } else { "" };
    let health = one.health.as_ref().map(|health| format!("{:?}", health.status)).unwrap_or_default();
    [
        one.group.clone(),
        one.kind.clone(),
        one.namespace.clone(),
        one.name.clone(),
        wave_number(one),
        format!("{status}{pruned}"),
        health,
    ]
}

pub(super) fn display_name(application: &Application) -> String {
    AppKey::of(application).to_string()
}

fn cluster_name(application: &Application) -> String {
    let destination = &application.spec.destination;
    if destination.server.is_empty() { destination.name.clone() } else { destination.server.clone() }
}

/// Describes an application's deletion: its start, its effect on the objects, and other finalizers that block
/// it.
fn describe_deletion(application: &Application) -> String {
    let Some(since) = application.metadata.deletion_timestamp else { return String::new() };
    let others: Vec<&str> = application.metadata.finalizers.iter().map(String::as_str).collect();
    match deletion::cascade_from_finalizers(application) {
        Some(cascade) => format!("since {since}, {cascade}"),
        None if others.is_empty() => format!("since {since}"),
        None => format!("since {since}; waiting for the finalizers {}", others.join(", ")),
    }
}

/// Returns the sync status. `Deleting` takes precedence.
fn sync_status(application: &Application) -> String {
    if application.is_deleting() {
        return "Deleting".to_owned();
    }
    application.status.sync.as_ref().map(|sync| sync.status).unwrap_or_default().to_string()
}

fn health_status(application: &Application) -> String {
    application
        .status
        .health
        .as_ref()
        .map_or_else(|| "Unknown".to_owned(), |health| format!("{:?}", health.status))
}

/// Returns the health status and its reason, shortened if necessary: `Degraded (Deployment shop/web: …)`.
fn health_with_reason(application: &Application, characters_max: usize) -> String {
    let health = health_status(application);
    let reason = application.status.health.as_ref().map_or("", |health| health.message.as_str());
    match reason.char_indices().nth(characters_max) {
        _ if reason.is_empty() => health,
        None => format!("{health} ({reason})"),
        Some((end, _)) => format!("{health} ({}…)", reason.get(..end).unwrap_or_default().trim_end()),
    }
}

fn describe_policy(application: &Application) -> &'static str {
    match automated(application) {
        None => "Manual",
        Some(automated) if automated.prune == Some(true) => "Auto-Prune",
        Some(_) => "Auto",
    }
}

/// Formats an application's conditions, such as `SyncError` or `SharedResourceWarning(2)`.
fn format_conditions(application: &Application) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for condition in &application.status.conditions {
        let count = counts.entry(condition.kind.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    let text =
        counts.into_iter().map(|(kind, count)| if count == 1 { kind } else { format!("{kind}({count})") });
    let text: Vec<String> = text.collect();
    if text.is_empty() { "<none>".to_owned() } else { text.join(",") }
}

fn format_source(source: &ApplicationSource) -> String {
    let reference =
        if source.reference.is_empty() { String::new() } else { format!(" as ${}", source.reference) };
    let folder = source_path(source);
    let between = if folder.is_empty() { "" } else { " " };
    let revision = text_or(&source.target_revision, "HEAD");
    format!("{}{between}{folder} at {revision}{reference}", source.repo_url)
}

/// Returns a source's folder or chart.
fn source_path(source: &ApplicationSource) -> &str {
    if source.chart.is_empty() { &source.path } else { &source.chart }
}

/// Appends the number of other sources, if any, to the first source's description.
fn append_other_count(first: String, application: &Application) -> String {
    match application.sources().len() {
        0 | 1 => first,
        all => format!("{first} (+{})", all.saturating_sub(1)),
    }
}

fn text_or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

fn shorten_commit(revision: &str, several: &[String]) -> String {
    let one = |revision: &String| revision.chars().take(SHORT_COMMIT_DIGITS).collect::<String>();
    revisions_of_fields(revision, several).iter().map(one).collect::<Vec<_>>().join(" ")
}

fn format_time(time: Option<Time>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}
