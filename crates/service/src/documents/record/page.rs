//! The record as a page: everything on one screen after the other, and nothing that has to be opened to be printed.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::operation::{Fact, HookLogView, OperationView, TakenPlanView, WaveView};
use tidegate_model::{
    OperationPhase, Override, PlanApproval, ResourceResult, ResultCode, SyncRequest, Timestamp,
    format_duration,
};

use super::Record;
use super::logs::{AttemptLog, logs};
use super::markup::Markup;
use super::picture::{self, Level};
use super::story::{Line, Span, Story, Tone};
use crate::documents::facts;

/// Why there is no more of an operation than its line.
const COMPACTED: &str = "Its details were compacted: as many of the newest operations of an application keep them as --history says, ten if it is not said.";
/// See [`reasons`].
const SHORT: Duration = Duration::from_millis(50);
const STYLE: &str = include_str!("style.css");

/// The page.
pub fn of(record: &Record) -> String {
    let operation = &record.inspected.operation;
    let story = Story::of(&record.facts);
    let until = operation.finished_at.unwrap_or(record.at);
    let what = if operation.deletion.is_some() { "Deletion of" } else { "Operation of" };
    let title = format!("{what} {}", operation.app);
    let parts = [
        Markup::of("h1", &title),
        lead(record),
        terms(record),
        waves(operation, until),
        timeline(&story, until),
        results(operation),
        hook_logs(record),
        findings(operation),
        recorded(record),
        footer(record.at),
    ];
    html(&format!("{title}: {}", operation.phase_words()), parts)
}

/// A whole page of these parts, which asks nobody for anything.
pub(in crate::documents) fn html(name: &str, parts: impl IntoIterator<Item = Markup>) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        BASE64_STANDARD.encode(Sha256::digest(STYLE))
    );
    let name = Markup::of("title", name);
    let body = Markup::element("body", &[], [Markup::element("main", &[], parts)]);
    // The style sheet is ours, and bears no escapes: its digest is what the policy lets in.
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

fn class(phase: OperationPhase) -> &'static str {
    match phase {
        OperationPhase::Succeeded => "good",
        OperationPhase::Failed | OperationPhase::Error => "bad",
        OperationPhase::Running | OperationPhase::Terminating => "",
    }
}

fn lead(record: &Record) -> Markup {
    let operation = &record.inspected.operation;
    let words = match operation.finished_at {
        Some(_) => operation.message.trim_end(),
        None => &record.inspected.explanation.summary,
    };
    let phase = operation.phase_words();
    let verdict = Markup::classed("strong", class(operation.phase), &phase);
    let damage =
        record.damage.iter().map(|damage| Markup::classed("p", "bad", &format!("It is damaged: {damage}")));
    Markup::all(
        std::iter::once(Markup::element("p", &[], [verdict, Markup::text(&format!(": {words}"))]))
            .chain(damage),
    )
}

/// Names and what they stand for; without those that say nothing.
pub(in crate::documents) fn list(terms: impl IntoIterator<Item = (&'static str, String)>) -> Markup {
    let said = terms.into_iter().filter(|(_, text)| !text.is_empty());
    Markup::element(
        "dl",
        &[],
        said.map(|(name, text)| Markup::all([Markup::of("dt", name), Markup::of("dd", &text)])),
    )
}

fn terms(record: &Record) -> Markup {
    let operation = &record.inspected.operation;
    let request = record.facts.iter().find_map(|fact| match fact {
        Fact::Accepted { request, .. } => Some(&**request),
        _ => None,
    });
    let ended = operation.finished_at;
    let said = |text: Option<String>| text.unwrap_or_default();
    // Of one whose facts are not kept any more.
    let kept = record.inspected.kept.as_ref();
    let or_kept = |word: String, kept: Option<&String>| match kept {
        Some(kept) if word.is_empty() => kept.clone(),
        _ => word,
    };
    let of_request = |word: fn(&SyncRequest) -> String| request.map(word).unwrap_or_default();
    let revision = of_request(|request| request.revision.clone());
    let cluster = of_request(|request| request.destination.to_string());
    let attempts = operation.retry_count.saturating_add(1).to_string();
    let rules = operation.health_rules.as_ref();
    let plan = operation.plan.as_ref();
    list([
        ("Id", operation.id.to_string()),
        ("Asked for by", said(operation.initiated_by.clone())),
        ("Why", said(operation.reason.clone())),
        ("Plan", said(plan.map(|plan| format!("{}, made at {}", plan.short(), plan.made_at)))),
        ("Approved by", said(plan.map(approvals))),
        ("Revision", or_kept(revision, kept.and_then(|kept| kept.revision.as_ref()))),
        ("From", of_request(|request| request.sources.join(", "))),
        ("Cluster", or_kept(cluster, kept.and_then(|kept| kept.destination.as_ref()))),
        ("Namespace", of_request(|request| request.namespace.clone())),
        ("Options", of_request(options)),
        ("Began", operation.started_at.to_string()),
        ("Ended", said(ended.map(|at| at.to_string()))),
        ("Took", said(ended.map(|at| format_duration(at.since(operation.started_at))))),
        ("Attempts", if kept.is_some() { String::new() } else { attempts }),
        ("Held by", said(operation.paused_by.clone())),
        ("Ended by", said(operation.terminated_by.clone())),
        ("Health rules", said(rules.map(|rules| rules.digest.clone()))),
    ])
}

/// `ann (looked at it) at 2026-11-25T10:00:00Z; ben at 2026-11-25T10:05:00Z`.
fn approvals(plan: &TakenPlanView) -> String {
    let one = |approval: &PlanApproval| format!("{} at {}", approval.who(), approval.at);
    plan.approvals.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn options(request: &SyncRequest) -> String {
    let options = &request.options;
    let flags = [
        (options.prune, "prune"),
        (options.adopt, "adopt"),
        (options.dry_run, "dry run"),
        (options.force, "force"),
        (options.skip_hooks, "without hooks"),
    ];
    let mut words: Vec<String> =
        flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()).collect();
    words.extend(options.flags.iter().map(ToString::to_string));
    words.extend(
        request
            .selection
            .iter()
            .map(|one| format!("only {}:{}:{}/{}", one.group, one.kind, one.namespace, one.name)),
    );
    words.join(", ")
}

/// A table with a head for each column.
pub(in crate::documents) fn table<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    let heads = heads.map(|head| Markup::element("th", &[("scope", "col")], [Markup::text(head)]));
    let head = Markup::element("thead", &[], [Markup::element("tr", &[], heads)]);
    let table = Markup::element("table", &[], [head, Markup::element("tbody", &[], rows)]);
    Markup::element("div", &[("class", "scroll")], [table])
}

pub(in crate::documents) fn cells<const N: usize>(cells: [&str; N]) -> Markup {
    Markup::element("tr", &[], cells.map(|cell| Markup::of("td", cell)))
}

fn waves(operation: &OperationView, until: Timestamp) -> Markup {
    if operation.waves.is_empty() {
        return Markup::default();
    }
    let rows = operation.waves.iter().map(|wave| {
        let took = wave.opened_at.map(|from| format_duration(wave.passed_at.unwrap_or(until).since(from)));
        let opened = wave.opened_at.map(|at| at.to_string());
        cells([
            &wave.phase.to_string(),
            &wave.wave.to_string(),
            wave.words(),
            &done(wave),
            &opened.unwrap_or_default(),
            &took.unwrap_or_default(),
        ])
    });
    Markup::all([Markup::of("h2", "Waves"), table(["Phase", "Wave", "State", "Done", "Began", "Took"], rows)])
}

fn timeline(story: &Story, until: Timestamp) -> Markup {
    if story.operation.spans.is_empty() {
        return Markup::default();
    }
    let (lines, left) = picture::chosen(story);
    let left =
        (left > 0).then(|| format!("{left} objects that took less time and met with nothing are not drawn."));
    let is_told = |line: &Line| !line.spans.is_empty() || !line.marks.is_empty();
    let rows = lines.iter().filter(|(_, line)| is_told(line)).map(|(level, line)| {
        let class = match level {
            Level::Operation => "",
            Level::Wave => "wave",
            Level::Object => "object",
        };
        let began = line.spans.first().map(|span| span.from.to_string()).unwrap_or_default();
        let attempts: std::collections::BTreeSet<u32> = line.spans.iter().map(|span| span.attempt).collect();
        let attempts: Vec<String> = attempts.iter().map(ToString::to_string).collect();
        let waited = line.waited(until);
        let waited = if waited.is_zero() { String::new() } else { format_duration(waited) };
        let name = Markup::element("th", &[("scope", "row"), ("class", class)], [Markup::text(&line.label)]);
        let rest = [&began, &format_duration(line.took(until)), &waited, &attempts.join(", "), line.state()];
        let reasons = Markup::element("td", &[], reasons(line, until));
        let moments = line.marks.iter().map(|mark| Markup::of("div", &format!("{}: {}", mark.at, mark.text)));
        let moments = Markup::element("td", &[], moments);
        let cells = rest.map(|cell| Markup::of("td", cell)).into_iter().chain([reasons, moments]);
        Markup::element("tr", &[], std::iter::once(name).chain(cells))
    });
    Markup::all([
        Markup::of("h2", "Timeline"),
        Markup::element("div", &[("class", "scroll")], [picture::draw(story, until)]),
        Markup::classed(
            "p",
            "quiet",
            "Green: well. Blue: at work. Yellow, with a line through it: waits, also for health, the end of a hook or for what is deleted to be gone. Red: failed. Orange: missing.",
        ),
        Markup::all(left.iter().map(|words| Markup::classed("p", "quiet", words))),
        table(["What", "Began", "Took", "Waited", "Attempts", "State", "Waits and reasons", "Moments"], rows),
    ])
}

/// Each wait with its length and its reason, and what else had one. A wait without one that is shorter is only passed through.
fn reasons(line: &Line, until: Timestamp) -> Vec<Markup> {
    let took = |span: &Span| span.to.unwrap_or(until).since(span.from);
    let is_told = |span: &&Span| {
        !span.why.is_empty() || (span.tone == Tone::Wait && (span.to.is_none() || took(span) >= SHORT))
    };
    let told = line.spans.iter().filter(is_told).map(|span| {
        let length = format_duration(took(span));
        let what = match (span.tone, span.to) {
            (Tone::Wait, None) => format!("waits {length} ({})", span.state),
            (Tone::Wait, Some(_)) => format!("waited {length} ({})", span.state),
            _ => format!("{} for {length}", span.state),
        };
        let attempt = if span.attempt > 1 { format!(", attempt {}", span.attempt) } else { String::new() };
        let why = if span.why.is_empty() { String::new() } else { format!(": {}", span.why) };
        Markup::of("div", &format!("{}: {what}{attempt}{why}", span.from))
    });
    told.collect()
}

/// What has become of an object: a hook has run or failed, anything else was synced, and may have gone wrong then.
fn result(one: &ResourceResult, shown: &str) -> String {
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

fn object((kind, namespace, name): (&str, &str, &str)) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("{kind} {namespace}{name}")
}

/// How an object stands, with what people have decided about it.
fn state(one: &ResourceResult) -> String {
    match (one.hook_phase, one.overridden.as_ref().map(|overridden| overridden.what)) {
        (None, _) => String::new(),
        (Some(phase), Some(Override::Skip)) if phase.is_completed() => "Skipped".to_owned(),
        (Some(phase), Some(Override::MarkDone)) if phase.is_completed() => "Marked as done".to_owned(),
        (Some(phase), _) => phase.to_string(),
    }
}

/// How much of a wave is done, and how much of it was skipped.
fn done(wave: &WaveView) -> String {
    let done = format!("{} of {}", wave.done, wave.tasks);
    if wave.skipped > 0 { format!("{done}, {} skipped", wave.skipped) } else { done }
}

fn results(operation: &OperationView) -> Markup {
    if operation.resources.is_empty() {
        return Markup::default();
    }
    let rows = operation.resources.iter().map(|one| {
        let ResourceResult { kind, namespace, name, message, reason, warnings, .. } = one;
        let hook = if one.hook_type.is_some() { "hook " } else { "" };
        let has_passed = |wave: &&WaveView| {
            (wave.phase, wave.wave) == (one.sync_phase, one.wave) && wave.state == "Passed"
        };
        // Nothing says of an object of the last wave that it is done: its wave has passed.
        let shown = match one.hook_phase {
            Some(OperationPhase::Running) if operation.waves.iter().any(|wave| has_passed(&wave)) => {
                OperationPhase::Succeeded.to_string()
            }
            _ => state(one),
        };
        let words: Vec<&str> = [message, reason]
            .into_iter()
            .chain(warnings)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        cells([
            &one.sync_phase.to_string(),
            &one.wave.to_string(),
            &format!("{hook}{}", object((kind, namespace, name))),
            &result(one, &shown),
            &shown,
            &words.join("; "),
        ])
    });
    Markup::all([
        Markup::of("h2", "Objects"),
        table(["Phase", "Wave", "Object", "Result", "State", "Message"], rows),
    ])
}

fn hook_logs(record: &Record) -> Markup {
    let operation = &record.inspected.operation;
    let of_attempts = logs(&record.facts);
    let heading = |log: &HookLogView| {
        let hook = object((&log.kind, &log.namespace, &log.name));
        format!("{hook}: pod {}, container {}", log.pod, log.container)
    };
    let markup = |heading: String, log: &HookLogView| {
        Markup::all([Markup::of("h3", &heading), Markup::of("pre", &log.text)])
    };
    let is_one = operation.retry_count == 0;
    let each = of_attempts.iter().map(|AttemptLog { attempt, log }| {
        let attempt = if is_one { String::new() } else { format!(" (attempt {attempt})") };
        markup(format!("{}{attempt}", heading(log)), log)
    });
    // Where older facts are not kept any more, how it stands still says what was written last.
    let newest = operation.hook_logs.iter().filter(|_| of_attempts.is_empty());
    let each = each.chain(newest.map(|log| markup(heading(log), log)));
    titled("Logs of failed hooks", each.collect())
}

fn findings(operation: &OperationView) -> Markup {
    let each: Vec<Markup> =
        operation.warnings.iter().map(|warning| Markup::of("li", &warning.to_string())).collect();
    if each.is_empty() {
        Markup::default()
    } else {
        titled("Findings of the plan", vec![Markup::element("ul", &[], each)])
    }
}

pub(in crate::documents) fn titled(title: &str, parts: Vec<Markup>) -> Markup {
    if parts.is_empty() {
        return Markup::default();
    }
    Markup::all(std::iter::once(Markup::of("h2", title)).chain(parts))
}

fn recorded(record: &Record) -> Markup {
    let compacted = record.first.saturating_sub(1);
    let note = (compacted > 0).then(|| format!("{compacted} older facts are not kept any more."));
    let documents = facts::documents(record.first, &record.facts);
    let rows = documents.iter().map(|fact| {
        let at = fact.at.map(|at| at.to_string()).unwrap_or_default();
        cells([&fact.sequence.to_string(), &at, &fact.text])
    });
    let none = documents.is_empty().then(|| {
        let why = if record.inspected.kept.is_some() { COMPACTED } else { "Nothing can be read." };
        Markup::classed("p", "quiet", why)
    });
    Markup::all([
        Markup::of("h2", "What was recorded"),
        Markup::all(note.iter().map(|words| Markup::classed("p", "quiet", words))),
        none.unwrap_or_else(|| table(["Number", "Time", "What"], rows)),
    ])
}

/// Who has written the page, and when.
pub(in crate::documents) fn footer(at: Timestamp) -> Markup {
    let words = format!(
        "Written by tidegate {} at {at}. Times are in UTC; values of Secrets are masked.",
        env!("CARGO_PKG_VERSION"),
    );
    Markup::of("footer", &words)
}
