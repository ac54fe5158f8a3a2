//! Operations in human-readable form: a sync's result, `ops show`, `explain` and `ops list`.

use tidegate_lifecycle::operation::{HealthRulesView, HookLogView, OperationView, WaveView};
use tidegate_model::{
    Cascade, OperationOutcome, Override, Phase, ResourceResult, ResultCode, Severity, Timestamp, Warning,
    format_duration,
};
use tidegate_views::record::AttemptLog;
use tidegate_views::{ExplanationDocument, SummaryDocument};

use super::table::table;
use super::text::{Style, Text, one_line};

pub fn outcome_style(outcome: OperationOutcome) -> Style {
    use OperationOutcome::{Error, Failed, Running, Succeeded, Superseded, Terminating};
    match outcome {
        Succeeded => Style::Good,
        Failed | Error => Style::Bad,
        Running | Terminating => Style::Accent,
        Superseded => Style::Plain,
    }
}

/// Formats a sync's result: the action and the outcome for each object.
pub fn result(operation: &OperationView, width: Option<u16>) -> Text {
    let mut text = Text::new();
    if !operation.resources.is_empty() {
        text.append(resources(&operation.resources, width));
        text.end_line();
    }
    add_warnings(&mut text, &operation.warnings, &operation.resources);
    text.append(summary_line(operation));
    text
}

/// Formats the summary, such as `shop: Succeeded in 9 s: successfully synced (all tasks run)`. A dry run's
/// summary says that nothing was written.
fn summary_line(operation: &OperationView) -> Text {
    let mut text = Text::new();
    text.add(Style::Bold, &operation.app);
    text.add(Style::Plain, ": ");
    text.add(outcome_style(operation.outcome), operation.describe_phase());
    if let Some(finished_at) = operation.finished_at {
        text.add(Style::Plain, format!(" in {}", format_duration(finished_at.since(operation.started_at))));
    }
    if operation.retry_count > 0 {
        text.add(
            Style::Plain,
            format!(", {}", super::format_count(operation.retry_count, "retry", "retries")),
        );
    }
    text.add(Style::Plain, format!(": {}", operation.message.trim_end()));
    text.end_line();
    text.add(Style::Dim, format!("operation {}", operation.id));
    text.end_line();
    text
}

fn resources(resources: &[ResourceResult], width: Option<u16>) -> Text {
    let rows = resources.iter().map(|resource| {
        [
            resource.sync_phase.to_string(),
            resource.wave.to_string(),
            resource.kind.clone(),
            format_location(resource),
            format_outcome(resource),
            format_message(resource),
        ]
    });
    table(["PHASE", "WAVE", "KIND", "NAME", "RESULT", "MESSAGE"], rows, width)
}

fn format_location(resource: &ResourceResult) -> String {
    match resource.namespace.as_str() {
        "" => resource.name.clone(),
        namespace => format!("{namespace}/{}", resource.name),
    }
}

/// Returns the message with the pods' reports, unless it already contains them.
fn format_message(resource: &ResourceResult) -> String {
    let message = if resource.message.contains(&resource.reason) {
        resource.message.clone()
    } else {
        format!("{} ({})", resource.message, resource.reason)
    };
    // The message already names the user who skipped the object.
    match resource.overridden.as_ref().filter(|overridden| overridden.what == Override::Retry) {
        Some(retried) if resource.message != retried.describe() => {
            format!("{message}; {}", retried.describe())
        }
        _ => message,
    }
}

/// Describes the outcome. A hook succeeds, fails or is skipped; a resource is synced, possibly with a later
/// failure; an object that is still being deleted has no outcome yet.
fn format_outcome(resource: &ResourceResult) -> String {
    let status = resource.status.map(|status| status.to_string());
    let passed_over = status
        .as_ref()
        .filter(|_| matches!(resource.status, Some(ResultCode::Skipped | ResultCode::MarkedDone)));
    if let (Some(_), Some(word)) = (resource.hook_type, passed_over) {
        return format!("hook {word}");
    }
    match (resource.hook_type, resource.hook_phase) {
        (Some(_), Some(phase)) => format!("hook {phase}"),
        (None, Some(phase)) if phase.is_unsuccessful() => match status {
            Some(status) if status != "SyncFailed" => format!("{status}, {phase}"),
            Some(status) => status,
            None => phase.to_string(),
        },
        (None, Some(phase)) => status.unwrap_or_else(|| phase.to_string()),
        (_, None) => status.unwrap_or_default(),
    }
}

fn add_warnings(text: &mut Text, warnings: &[Warning], resources: &[ResourceResult]) {
    for warning in warnings {
        match warning.severity {
            Severity::Error => text.add(Style::Bad, "error"),
            Severity::Warning => text.add(Style::Warn, "warning"),
        }
        text.add(Style::Plain, format!(": {}", one_line(&warning.to_string())));
        text.end_line();
    }
    let from_cluster = server_warnings(resources);
    for warning in &from_cluster {
        text.add(Style::Warn, "warning");
        text.add(Style::Plain, format!(": {}", one_line(warning)));
        text.end_line();
    }
    if !warnings.is_empty() || !from_cluster.is_empty() {
        text.end_line();
    }
}

/// Returns the API server's warnings, each once for all of its objects.
fn server_warnings(resources: &[ResourceResult]) -> Vec<String> {
    let mut about: Vec<(&str, &ResourceResult, usize)> = Vec::new();
    for (resource, warning) in
        resources.iter().flat_map(|resource| resource.warnings.iter().map(move |warning| (resource, warning)))
    {
        match about.iter_mut().find(|(known, ..)| known == warning) {
            Some((.., more)) => *more = more.saturating_add(1),
            None => about.push((warning, resource, 0)),
        }
    }
    let text = |(warning, resource, more): (&str, &ResourceResult, usize)| {
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{} {}{more}: {warning}", resource.kind, format_location(resource))
    };
    about.into_iter().map(text).collect()
}

/// Formats everything about an operation, including the logs of failed hooks from all attempts.
pub fn show(operation: &OperationView, logs: &[AttemptLog], width: Option<u16>) -> Text {
    let mut text = Text::new();
    let mut field = |name: &str, style: Style, value: String| {
        text.add(Style::Dim, format!("{name:<10}"));
        text.add(style, value);
        text.end_line();
    };
    field("operation", Style::Plain, operation.id.to_string());
    field("app", Style::Bold, operation.app.clone());
    if let Some(cascade) = operation.deletion {
        field("deletion", Style::Plain, describe_deletion(cascade, &operation.waves));
    }
    if let Some(by) = &operation.initiated_by {
        field("requester", Style::Plain, one_line(by));
    }
    if let Some(reason) = &operation.reason {
        field("reason", Style::Plain, one_line(reason));
    }
    if let Some(plan) = &operation.plan {
        field("plan", Style::Plain, format!("{}, created at {}", plan.short(), plan.created_at));
    }
    for approval in operation.plan.iter().flat_map(|plan| &plan.approvals) {
        field(
            "approved",
            Style::Plain,
            format!("by {} at {}", one_line(&approval.approver_text()), approval.at),
        );
    }
    field("phase", outcome_style(operation.outcome), operation.describe_phase());
    field("message", Style::Plain, operation.message.trim_end().to_owned());
    field("started", Style::Plain, operation.started_at.to_string());
    if let Some(finished_at) = operation.finished_at {
        field("finished", Style::Plain, finished_at.to_string());
    }
    if operation.retry_count > 0 {
        field("retries", Style::Plain, operation.retry_count.to_string());
    }
    if let Some(by) = &operation.paused_by {
        field("paused by", Style::Warn, by.clone());
    }
    if let Some(by) = &operation.terminated_by {
        field("ended by", Style::Warn, one_line(by));
    }
    if let Some(rules) = &operation.health_rules {
        field("health", Style::Plain, describe_health_rules(rules));
    }
    if !operation.waves.is_empty() {
        text.end_line();
        text.append(match operation.deletion {
            Some(_) => deletion_waves(&operation.waves, width),
            None => waves(&operation.waves, width),
        });
    }
    if !operation.resources.is_empty() {
        text.end_line();
        text.append(resources(&operation.resources, width));
    }
    for AttemptLog { attempt, log } in logs {
        text.end_line();
        text.append(format_hook_log(log, Some(*attempt).filter(|_| operation.retry_count > 0)));
    }
    // The view still has the last logs if older events were compacted.
    for log in operation.hook_logs.iter().filter(|_| logs.is_empty()) {
        text.end_line();
        text.append(format_hook_log(log, None));
    }
    let mut warnings = Text::new();
    add_warnings(&mut warnings, &operation.warnings, &operation.resources);
    if !warnings.is_empty() {
        text.end_line();
        text.append(warnings);
    }
    text
}

/// Formats the health rules, such as `rules 77ab01f2c3d4`, and the time of their last change, if any.
fn describe_health_rules(rules: &HealthRulesView) -> String {
    let changed = |before: &String| format!(", changed from {before} at {}", rules.since);
    format!("rules {}{}", rules.digest, rules.before.as_ref().map(changed).unwrap_or_default())
}

/// Describes the effect of a deletion on the application's objects, and their order.
fn describe_deletion(cascade: Cascade, waves: &[WaveView]) -> String {
    let of_objects = || waves.iter().filter(|wave| wave.phase == Phase::Sync).map(|wave| wave.wave);
    let order = match (cascade.deletes_objects(), of_objects().next().zip(of_objects().next_back())) {
        (false, _) => "; its objects are kept".to_owned(),
        (true, Some((first, last))) if first != last => {
            format!("; objects are deleted wave by wave, from wave {first} to wave {last}")
        }
        (true, _) => String::new(),
    };
    format!("{cascade}{order}")
}

fn deletion_waves(waves: &[WaveView], width: Option<u16>) -> Text {
    let rows = waves.iter().map(|wave| {
        let what = if wave.phase == Phase::Sync { "objects" } else { "hooks" };
        let [phase, number, state, done, took] = wave_cells(wave);
        [phase, number, what.to_owned(), state, done, took]
    });
    table(["PHASE", "WAVE", "TYPE", "STATE", "DONE", "TOOK"], rows, width)
}

/// Formats the last log lines of a failed hook's container.
fn format_hook_log(log: &HookLogView, attempt: Option<u32>) -> Text {
    let mut text = Text::new();
    let name = match log.namespace.as_str() {
        "" => log.name.clone(),
        namespace => format!("{namespace}/{}", log.name),
    };
    text.add(Style::Bold, format!("log of hook {} {name}", log.kind));
    if let Some(attempt) = attempt {
        text.add(Style::Plain, format!(", attempt {attempt}"));
    }
    text.add(Style::Dim, format!(", pod {}, container {}", log.pod, log.container));
    text.end_line();
    for line in log.text.lines() {
        text.add(Style::Plain, format!("  {line}"));
        text.end_line();
    }
    text
}

fn waves(waves: &[WaveView], width: Option<u16>) -> Text {
    table(["PHASE", "WAVE", "STATE", "DONE", "TOOK"], waves.iter().map(wave_cells), width)
}

fn wave_cells(wave: &WaveView) -> [String; 5] {
    let took = wave.opened_at.zip(wave.passed_at).map(|(from, to)| format_duration(to.since(from)));
    let skipped = if wave.skipped > 0 { format!(", {} skipped", wave.skipped) } else { String::new() };
    [
        wave.phase.to_string(),
        wave.wave.to_string(),
        wave.describe_state().to_owned(),
        format!("{} of {}{skipped}", wave.done, wave.tasks),
        took.unwrap_or_default(),
    ]
}

/// Formats an explanation: a summary, and everything the operation is waiting for.
pub fn explain(explanation: &ExplanationDocument, width: Option<u16>) -> Text {
    let mut text = Text::new();
    text.add(Style::Bold, &explanation.app);
    text.add(Style::Plain, format!(": {}", one_line(&explanation.summary)));
    text.end_line();
    if explanation.awaited.len() > 1 {
        let rows = explanation.awaited.iter().map(|awaited| {
            [
                awaited.what.clone(),
                format_duration(elapsed_seconds(explanation.at, awaited.since)),
                awaited.why.clone(),
            ]
        });
        text.end_line();
        text.append(table(["WAITING FOR", "TIME", "REASON"], rows, width));
    }
    if !explanation.critical_path.is_empty() {
        let steps: Vec<String> = explanation.critical_path.iter().map(ToString::to_string).collect();
        text.add(Style::Plain, format!("critical path: {}", one_line(&steps.join(" → "))));
        text.end_line();
    }
    text.add(Style::Dim, format!("operation {}", explanation.id));
    if let Some(rules) = &explanation.health_rules {
        text.add(Style::Dim, format!(", health rules {rules}"));
    }
    text.end_line();
    text
}

fn elapsed_seconds(now: Timestamp, since: Timestamp) -> std::time::Duration {
    std::time::Duration::from_secs(now.since(since).as_secs())
}

/// Formats one line per operation.
pub fn list(operations: &[SummaryDocument], now: Timestamp, width: Option<u16>) -> Text {
    let rows = operations.iter().map(|operation| {
        let phase = operation.outcome.map(|outcome| outcome.to_string());
        let paused = operation.paused && operation.finished_at.is_none();
        let text = [
            phase,
            operation.dry_run.then(|| "dry run".to_owned()),
            paused.then(|| "paused".to_owned()),
            operation.damage.is_some().then(|| "damaged".to_owned()),
            operation.unknown_kind.clone(),
            operation.is_unattended().then(|| "no process".to_owned()),
        ];
        [
            operation.id.to_string(),
            operation.app.clone().unwrap_or_default(),
            text.into_iter().flatten().collect::<Vec<_>>().join(", "),
            format!("{} of {}", operation.waves_passed, operation.waves),
            format!("{} ago", format_duration(elapsed_seconds(now, operation.started_at))),
            operation.message(),
        ]
    });
    table(["ID", "APP", "PHASE", "WAVES", "STARTED", "MESSAGE"], rows, width)
}
