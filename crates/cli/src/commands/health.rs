//! `tidegate health`: what the health rules say of objects in files.

use serde::Serialize;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_health::HealthError;
use tidegate_model::{Health, HealthStatus};

use crate::args::{Format, HealthArgs};
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, Style, Text, table};

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
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(flatten)]
    verdict: Verdict,
}

pub fn run(args: &HealthArgs, printer: &Printer) -> Result<Ended, CliError> {
    let manifests = input::load(&args.files, input::Wanted { unnamed: true, ..Default::default() })?;
    let rules = customizations::given(&args.scripts, printer)?;
    let now = SystemClock.now();
    let objects = || manifests.targets.iter().map(|target| &target.object);
    let verdicts: Vec<_> = objects().map(|object| rules.assess(object, now)).collect();
    let statuses = objects().zip(verdicts.iter().map(|verdict| status(verdict.as_ref())));
    let judged: Vec<_> = objects()
        .zip(&verdicts)
        .map(|(object, verdict)| Named {
            api_version: object.text("/apiVersion"),
            kind: object.kind(),
            namespace: object.namespace(),
            name: object.name(),
            verdict: shown(verdict.clone()),
        })
        .collect();
    match (args.output, judged.as_slice()) {
        (Format::Text, all) => {
            let mut text = text(all, printer.width());
            if all.len() > 1 {
                text.end_line();
                text.add(Style::Dim, "together  ");
                text.add(Style::Plain, format!("{:?}", tidegate_health::of_application(statuses)));
                text.end_line();
            }
            printer.out(&text)?;
        }
        (format, [one]) => printer.value(&one.verdict, format)?,
        (format, all) => printer.value(all, format)?,
    }
    Ok(Ended::Done)
}

/// What counts for the application.
fn status(verdict: Option<&Result<Health, HealthError>>) -> Option<HealthStatus> {
    match verdict? {
        Ok(health) => Some(health.status),
        Err(HealthError::NoStatus { .. }) => None,
        Err(_) => Some(HealthStatus::Unknown),
    }
}

fn shown(verdict: Option<Result<Health, HealthError>>) -> Verdict {
    let known =
        |health: Health| Verdict { status: Some(format!("{:?}", health.status)), message: health.message };
    match verdict {
        None => Verdict { status: None, message: String::new() },
        Some(Ok(health)) => known(health),
        Some(Err(HealthError::NoStatus { .. })) => {
            Verdict { status: Some(String::new()), message: String::new() }
        }
        Some(Err(error)) => known(Health::from(error)),
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
        let object = format!("{} {place}{}", one.kind, one.name);
        [object.trim_end().to_owned(), status.to_owned(), one.verdict.message.clone()]
    });
    table(["OBJECT", "STATUS", "MESSAGE"], rows, width)
}
