//! `tidegate health`: what the health rules say of objects in files.

use serde::Serialize;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_health::{HealthError, HealthRules};
use tidegate_model::{Health, Object, Timestamp};

use crate::args::{Format, HealthArgs};
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, Text, table};

/// A verdict as documents have it. No status: the kind has no rule. An empty one: its script gives none.
#[derive(Debug, Serialize)]
struct Verdict {
    status: Option<String>,
    message: String,
}

/// A verdict among others.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    #[serde(flatten)]
    verdict: Verdict,
}

pub fn run(args: &HealthArgs, printer: &Printer) -> Result<Ended, CliError> {
    let manifests = input::load(&args.files)?;
    let rules = customizations::load(&args.scripts)?.unwrap_or_default();
    let now = SystemClock.now();
    let judged: Vec<_> = manifests
        .targets
        .iter()
        .map(|target| Named {
            api_version: target.object.text("/apiVersion"),
            kind: target.object.kind(),
            namespace: target.object.namespace(),
            name: target.object.name(),
            verdict: judge(&rules, &target.object, now),
        })
        .collect();
    match (args.output, judged.as_slice()) {
        (Format::Text, all) => printer.out(&text(all, printer.width()))?,
        (format, [one]) => printer.value(&one.verdict, format)?,
        (format, all) => printer.value(all, format)?,
    }
    Ok(Ended::Done)
}

fn judge(rules: &HealthRules, object: &Object, now: Timestamp) -> Verdict {
    let verdict =
        |health: Health| Verdict { status: Some(format!("{:?}", health.status)), message: health.message };
    match rules.assess(object, now) {
        None => Verdict { status: None, message: String::new() },
        Some(Ok(health)) => verdict(health),
        Some(Err(HealthError::NoStatus { .. })) => {
            Verdict { status: Some(String::new()), message: String::new() }
        }
        Some(Err(error)) => verdict(Health::from(error)),
    }
}

fn text(all: &[Named<'_>], width: Option<u16>) -> Text {
    let rows = all.iter().map(|one| {
        let place = if one.namespace.is_empty() { String::new() } else { format!("{}/", one.namespace) };
        let status = match one.verdict.status.as_deref() {
            None => "(no rule)",
            Some("") => "(no status)",
            Some(status) => status,
        };
        [format!("{} {place}{}", one.kind, one.name), status.to_owned(), one.verdict.message.clone()]
    });
    table(["OBJECT", "STATUS", "MESSAGE"], rows, width)
}
