//! HTML page of an operation's record. All sections follow one another, so nothing must be expanded before
//! printing.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::operation::{ExecutedPlanView, HookLogView, OperationEvent, OperationView, WaveView};
use tidegate_model::{
    OperationOutcome, OperationPhase, Override, PlanApproval, ResourceResult, ResultCode, SyncRequest,
    Timestamp, format_duration,
};

use super::Record;
use super::logs::{AttemptLog, hook_logs};
use super::markup::Markup;
use super::timeline::{Line, OperationTimeline, Span, Tone};
use super::timeline_chart::{self, Level};
use crate::log_entries;

/// Note for a page with only the operation's summary.
const COMPACTED_NOTE: &str = "The details were compacted. Only the newest operations of an application keep their details; \
                         `tidegate serve --history` sets how many [default: 10].";
/// Minimum duration of a wait that is listed without a reason.
const SHORT_WAIT: Duration = Duration::from_millis(50);
const STYLE: &str = include_str!("style.css");

/// Renders the page.
pub fn render_page(record: &Record) -> String {
    let operation = &record.details.operation;
    let story = OperationTimeline::from_events(&record.events);
    let until = operation.finished_at.unwrap_or(record.read_at);
    let what = if operation.deletion.is_some() { "Deletion of" } else { "Operation of" };
    let title = format!("{what} {}", operation.app);
    let parts = [
        Markup::text_element("h1", &title),
        render_lead(record),
        render_terms(record),
        render_waves(operation, until),
        render_timeline(&story, until),
        render_results(operation),
        render_hook_logs(record),
        render_findings(operation),
        render_log(record),
        render_footer(record.read_at),
    ];
    render_html(&format!("{title}: {}", operation.describe_phase()), parts)
}

/// Returns a complete page with the given content. The page doesn't load anything.
pub(crate) fn render_html(name: &str, parts: impl IntoIterator<Item = Markup>) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        BASE64_STANDARD.encode(Sha256::digest(STYLE))
    );
    let name = Markup::text_element("title", name);
    let body = Markup::element("body", &[], [Markup::element("main", &[], parts)]);
    // The built-in style sheet isn't escaped, because the security policy allows only content with its
    // digest.
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\
         <meta name=\"referrer\" content=\"no-referrer\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         {}<style>{STYLE}</style></head>{}</html>\n",
        name.as_str(),
        body.as_str()
    )
}

fn outcome_class(outcome: OperationOutcome) -> &'static str {
    use OperationOutcome::{Error, Failed, Running, Succeeded, Superseded, Terminating};
    match outcome {
        Succeeded => "good",
        Failed | Error => "bad",
        Running | Terminating | Superseded => "",
    }
}

fn render_lead(record: &Record) -> Markup {
    let operation = &record.details.operation;
    let text = match operation.finished_at {
        Some(_) => operation.message.trim_end(),
        None => &record.details.explanation.summary,
    };
    let phase = operation.describe_phase();
    let verdict = Markup::text_element_with_class("strong", outcome_class(operation.outcome), &phase);
    let damage = record
        .damage
        .iter()
        .map(|damage| Markup::text_element_with_class("p", "bad", &format!("Damaged: {damage}")));
    Markup::concat(
        std::iter::once(Markup::element("p", &[], [verdict, Markup::text(&format!(": {text}"))]))
            .chain(damage),
    )
}

/// Renders a list of terms and their values, omitting empty values.
pub(crate) fn render_terms_list(terms: impl IntoIterator<Item = (&'static str, String)>) -> Markup {
    let present = terms.into_iter().filter(|(_, text)| !text.is_empty());
    Markup::element(
        "dl",
        &[],
        present.map(|(name, text)| {
            Markup::concat([Markup::text_element("dt", name), Markup::text_element("dd", &text)])
        }),
    )
}

fn render_terms(record: &Record) -> Markup {
    let operation = &record.details.operation;
    let request = record.events.iter().find_map(|event| match event {
        OperationEvent::Accepted { request, .. } => Some(&**request),
        _ => None,
    });
    let ended = operation.finished_at;
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    // Use the summary if the events were compacted.
    let summary = record.details.summary.as_ref();
    let or_summarized = |word: String, summary: Option<&String>| match summary {
        Some(summary) if word.is_empty() => summary.clone(),
        _ => word,
    };
    let of_request = |word: fn(&SyncRequest) -> String| request.map(word).unwrap_or_default();
    let revision = of_request(|request| request.revision.clone());
    let cluster = of_request(|request| request.destination.to_string());
    let attempts = operation.retry_count.saturating_add(1).to_string();
    let rules = operation.health_rules.as_ref();
    let plan = operation.plan.as_ref();
    render_terms_list([
        ("Id", operation.id.to_string()),
        ("Requested by", or_empty(operation.initiated_by.clone())),
        ("Reason", or_empty(operation.reason.clone())),
        ("Plan", or_empty(plan.map(|plan| format!("{}, created at {}", plan.short(), plan.created_at)))),
        ("Approved by", or_empty(plan.map(format_approvals))),
        ("Revision", or_summarized(revision, summary.and_then(|summary| summary.revision.as_ref()))),
        ("Source", of_request(|request| request.sources.join(", "))),
        ("Cluster", or_summarized(cluster, summary.and_then(|summary| summary.destination.as_ref()))),
        ("Namespace", of_request(|request| request.namespace.clone())),
        ("Options", of_request(format_options)),
        ("Started", operation.started_at.to_string()),
        ("Ended", or_empty(ended.map(|at| at.to_string()))),
        ("Duration", or_empty(ended.map(|at| format_duration(at.since(operation.started_at))))),
        ("Attempts", if summary.is_some() { String::new() } else { attempts }),
        ("Paused by", or_empty(operation.paused_by.clone())),
        ("Terminated by", or_empty(operation.terminated_by.clone())),
        ("Health rules", or_empty(rules.map(|rules| rules.digest.clone()))),
    ])
}

/// Formats the approvals, such as `ann (looked at it) at 2026-11-25T10:00:00Z; ben at 2026-11-25T10:05:00Z`.
fn format_approvals(plan: &ExecutedPlanView) -> String {
    let one = |approval: &PlanApproval| format!("{} at {}", approval.approver_text(), approval.at);
    plan.approvals.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn format_options(request: &SyncRequest) -> String {
    let options = &request.options;
    let flags = [
        (options.prune, "prune"),
        (options.adopt, "adopt"),
        (options.dry_run, "dry run"),
        (options.force, "force"),
        (options.skip_hooks, "without hooks"),
    ];
    let mut text: Vec<String> =
        flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()).collect();
    text.extend(options.flags.iter().map(ToString::to_string));
    text.extend(
        request
            .selection
            .iter()
            .map(|one| format!("only {}:{}:{}/{}", one.group, one.kind, one.namespace, one.name)),
    );
    text.join(", ")
}

/// Renders a table with a heading for each column.
pub(crate) fn render_table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    let heads = heads.map(|head| Markup::element("th", &[("scope", "col")], [Markup::text(head)]));
    let head = Markup::element("thead", &[], [Markup::element("tr", &[], heads)]);
    let table = Markup::element("table", &[], [head, Markup::element("tbody", &[], rows)]);
    Markup::element("div", &[("class", "scroll")], [table])
}

pub(crate) fn render_row<const N: usize>(cells: [&str; N]) -> Markup {
    Markup::element("tr", &[], cells.map(|cell| Markup::text_element("td", cell)))
}

fn render_waves(operation: &OperationView, until: Timestamp) -> Markup {
    if operation.waves.is_empty() {
        return Markup::default();
    }
    let rows = operation.waves.iter().map(|wave| {
        let took = wave.opened_at.map(|from| format_duration(wave.passed_at.unwrap_or(until).since(from)));
        let opened = wave.opened_at.map(|at| at.to_string());
        render_row([
            &wave.phase.to_string(),
            &wave.wave.to_string(),
            wave.describe_state(),
            &format_done(wave),
            &opened.unwrap_or_default(),
            &took.unwrap_or_default(),
        ])
    });
    Markup::concat([
        Markup::text_element("h2", "Waves"),
        render_table(["Phase", "Wave", "State", "Done", "Started", "Duration"], rows),
    ])
}

fn render_timeline(story: &OperationTimeline, until: Timestamp) -> Markup {
    if story.operation.spans.is_empty() {
        return Markup::default();
    }
    let (lines, left) = timeline_chart::select_lines(story);
    let left = (left > 0).then(|| format!("{left} objects with little activity are not shown."));
    let is_visible = |line: &Line| !line.spans.is_empty() || !line.marks.is_empty();
    let rows = lines.iter().filter(|(_, line)| is_visible(line)).map(|(level, line)| {
        let class = match level {
            Level::Operation => "",
            Level::Wave => "wave",
            Level::Object => "object",
        };
        let began = line.spans.first().map(|span| span.from.to_string()).unwrap_or_default();
        let attempts: std::collections::BTreeSet<u32> = line.spans.iter().map(|span| span.attempt).collect();
        let attempts: Vec<String> = attempts.iter().map(ToString::to_string).collect();
        let waited = line.wait_duration(until);
        let waited = if waited.is_zero() { String::new() } else { format_duration(waited) };
        let name = Markup::element("th", &[("scope", "row"), ("class", class)], [Markup::text(&line.label)]);
        let rest =
            [&began, &format_duration(line.duration(until)), &waited, &attempts.join(", "), line.state()];
        let reasons = Markup::element("td", &[], render_reasons(line, until));
        let moments =
            line.marks.iter().map(|mark| Markup::text_element("div", &format!("{}: {}", mark.at, mark.text)));
        let moments = Markup::element("td", &[], moments);
        let cells = rest.map(|cell| Markup::text_element("td", cell)).into_iter().chain([reasons, moments]);
        Markup::element("tr", &[], std::iter::once(name).chain(cells))
    });
    Markup::concat([
        Markup::text_element("h2", "Timeline"),
        Markup::element("div", &[("class", "scroll")], [timeline_chart::draw_timeline(story, until)]),
        Markup::text_element_with_class(
            "p",
            "quiet",
            "Green: healthy. Blue: in progress. Yellow with a line through it: waiting, for example for health, a hook or a deletion. Red: \
             failed. Orange: missing.",
        ),
        Markup::concat(left.iter().map(|text| Markup::text_element_with_class("p", "quiet", text))),
        render_table(
            ["Name", "Started", "Duration", "Waited", "Attempts", "State", "Waits and reasons", "Events"],
            rows,
        ),
    ])
}

/// Renders each wait with its duration and reason, and other spans with a reason. Omits short waits without a
/// reason.
fn render_reasons(line: &Line, until: Timestamp) -> Vec<Markup> {
    let took = |span: &Span| span.to.unwrap_or(until).since(span.from);
    let is_visible = |span: &&Span| {
        !span.reason.is_empty()
            || (span.tone == Tone::Wait && (span.to.is_none() || took(span) >= SHORT_WAIT))
    };
    let items = line.spans.iter().filter(is_visible).map(|span| {
        let length = format_duration(took(span));
        let what = match (span.tone, span.to) {
            (Tone::Wait, None) => format!("waits {length} ({})", span.state),
            (Tone::Wait, Some(_)) => format!("waited {length} ({})", span.state),
            _ => format!("{} for {length}", span.state),
        };
        let attempt = if span.attempt > 1 { format!(", attempt {}", span.attempt) } else { String::new() };
        let suffix = if span.reason.is_empty() { String::new() } else { format!(": {}", span.reason) };
        Markup::text_element("div", &format!("{}: {what}{attempt}{suffix}", span.from))
    });
    items.collect()
}

/// Formats an object's result. A hook ran or failed. Any other object was synced, and may have failed later.
fn format_result(one: &ResourceResult, shown: &str) -> String {
    let status = one.status.map(|status| status.to_string());
    let is_bad =
        |phase: &OperationPhase| phase.is_unsuccessful() && one.status != Some(ResultCode::SyncFailed);
    match (one.status, one.hook_type) {
        (Some(ResultCode::Skipped | ResultCode::MarkedDone), _) => status.unwrap_or_default(),
        (_, Some(_)) => shown.to_owned(),
        _ => {
            let went_wrong = one.hook_phase.filter(is_bad).map(|phase| phase.to_string());
            status.into_iter().chain(went_wrong).collect::<Vec<_>>().join(", ")
        }
    }
}

fn format_object(kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("{kind} {namespace}{name}")
}

/// Formats an object's state, including users' decisions.
fn format_state(one: &ResourceResult) -> String {
    match (one.hook_phase, one.overridden.as_ref().map(|overridden| overridden.what)) {
        (None, _) => String::new(),
        (Some(phase), Some(Override::Skip)) if phase.is_completed() => "Skipped".to_owned(),
        (Some(phase), Some(Override::MarkDone)) if phase.is_completed() => "Marked as done".to_owned(),
        (Some(phase), _) => phase.to_string(),
    }
}

/// Formats the numbers of a wave's finished and skipped tasks.
fn format_done(wave: &WaveView) -> String {
    let done = format!("{} of {}", wave.done, wave.tasks);
    if wave.skipped > 0 { format!("{done}, {} skipped", wave.skipped) } else { done }
}

fn render_results(operation: &OperationView) -> Markup {
    if operation.resources.is_empty() {
        return Markup::default();
    }
    let rows = operation.resources.iter().map(|one| {
        let ResourceResult { kind, namespace, name, message, reason, warnings, .. } = one;
        let hook = if one.hook_type.is_some() { "hook " } else { "" };
        let has_passed = |wave: &&WaveView| {
            (wave.phase, wave.wave) == (one.sync_phase, one.wave) && wave.state == "Passed"
        };
        // In the last wave, no event reports that an object has finished, so use the wave's state.
        let shown = match one.hook_phase {
            Some(OperationPhase::Running) if operation.waves.iter().any(|wave| has_passed(&wave)) => {
                OperationPhase::Succeeded.to_string()
            }
            _ => format_state(one),
        };
        let words: Vec<&str> = [message, reason]
            .into_iter()
            .chain(warnings)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        render_row([
            &one.sync_phase.to_string(),
            &one.wave.to_string(),
            &format!("{hook}{}", format_object(kind, namespace, name)),
            &format_result(one, &shown),
            &shown,
            &words.join("; "),
        ])
    });
    Markup::concat([
        Markup::text_element("h2", "Objects"),
        render_table(["Phase", "Wave", "Object", "Result", "State", "Message"], rows),
    ])
}

fn render_hook_logs(record: &Record) -> Markup {
    let operation = &record.details.operation;
    let of_attempts = hook_logs(&record.events);
    let heading = |log: &HookLogView| {
        let hook = format_object(&log.kind, &log.namespace, &log.name);
        format!("{hook}: pod {}, container {}", log.pod, log.container)
    };
    let markup = |heading: String, log: &HookLogView| {
        Markup::concat([Markup::text_element("h3", &heading), Markup::text_element("pre", &log.text)])
    };
    let is_one = operation.retry_count == 0;
    let each = of_attempts.iter().map(|AttemptLog { attempt, log }| {
        let attempt = if is_one { String::new() } else { format!(" (attempt {attempt})") };
        markup(format!("{}{attempt}", heading(log)), log)
    });
    // If the attempts' events were compacted, the status still contains the newest output.
    let newest = operation.hook_logs.iter().filter(|_| of_attempts.is_empty());
    let each = each.chain(newest.map(|log| markup(heading(log), log)));
    render_section("Logs of failed hooks", each.collect())
}

fn render_findings(operation: &OperationView) -> Markup {
    let each: Vec<Markup> =
        operation.warnings.iter().map(|warning| Markup::text_element("li", &warning.to_string())).collect();
    if each.is_empty() {
        Markup::default()
    } else {
        render_section("Plan findings", vec![Markup::element("ul", &[], each)])
    }
}

pub(crate) fn render_section(title: &str, parts: Vec<Markup>) -> Markup {
    if parts.is_empty() {
        return Markup::default();
    }
    Markup::concat(std::iter::once(Markup::text_element("h2", title)).chain(parts))
}

fn render_log(record: &Record) -> Markup {
    let compacted = record.first_sequence.saturating_sub(1);
    let note = (compacted > 0).then(|| format!("{compacted} older events are no longer stored."));
    let documents = log_entries::documents(record.first_sequence, &record.events);
    let rows = documents.iter().map(|event| {
        let at = event.at.map(|at| at.to_string()).unwrap_or_default();
        render_row([&event.sequence.to_string(), &at, &event.text])
    });
    let none = documents.is_empty().then(|| {
        let reason = if record.details.summary.is_some() { COMPACTED_NOTE } else { "No events can be read." };
        Markup::text_element_with_class("p", "quiet", reason)
    });
    Markup::concat([
        Markup::text_element("h2", "Recorded events"),
        Markup::concat(note.iter().map(|text| Markup::text_element_with_class("p", "quiet", text))),
        none.unwrap_or_else(|| render_table(["Number", "Time", "Event"], rows)),
    ])
}

/// Renders the footer with the page's author and time.
pub(crate) fn render_footer(at: Timestamp) -> Markup {
    let text = format!(
        "Written by tidegate {} at {at}. Times are in UTC; values of Secrets are masked.",
        env!("CARGO_PKG_VERSION"),
    );
    Markup::text_element("footer", &text)
}
