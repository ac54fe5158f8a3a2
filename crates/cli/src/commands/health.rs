//! `tidegate health`: the health of objects in files, according to the health rules.

use serde::Serialize;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_health::HealthError;
use tidegate_model::{Health, HealthStatus};

use crate::args::{Format, HealthArgs};
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::{Printer, Style, Text, table};

/// A result in JSON or YAML output. The status is absent if the kind has no rule, and empty if the script
/// returned none.
#[derive(Debug, Serialize)]
struct HealthVerdict {
    status: Option<String>,
    message: String,
}

/// A result in text output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectVerdict<'a> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(flatten)]
    verdict: HealthVerdict,
}

pub fn run(args: &HealthArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let manifests =
        input::load(&args.files, input::InputRequirements { can_be_unnamed: true, ..Default::default() })?;
    let rules = customizations::load_rules(&args.scripts, printer)?;
    let now = SystemClock.now();
    let objects = || manifests.targets.iter().map(|target| &target.object);
    let verdicts: Vec<_> = objects().map(|object| rules.assess(object, now)).collect();
    let statuses = objects().zip(verdicts.iter().map(|verdict| effective_status(verdict.as_ref())));
    let judged: Vec<_> = objects()
        .zip(&verdicts)
        .map(|(object, verdict)| ObjectVerdict {
            api_version: object.text("/apiVersion"),
            kind: object.kind(),
            namespace: object.namespace(),
            name: object.name(),
            verdict: to_verdict(verdict.clone()),
        })
        .collect();
    match (args.output, judged.as_slice()) {
        (Format::Text, all) => {
            let mut text = format_verdicts(all, printer.width());
            if all.len() > 1 {
                text.end_line();
                text.add(Style::Dim, "together  ");
                text.add(Style::Plain, format!("{:?}", tidegate_health::application_health(statuses)));
                text.end_line();
            }
            printer.print(&text)?;
        }
        (format, [one]) => printer.print_value(&one.verdict, format)?,
        (format, all) => printer.print_value(all, format)?,
    }
    Ok(CommandOutcome::Done)
}

/// Returns the status that counts towards the application's health.
fn effective_status(verdict: Option<&Result<Health, HealthError>>) -> Option<HealthStatus> {
    match verdict? {
        Ok(health) => Some(health.status),
        Err(HealthError::NoStatus { .. }) => None,
        Err(_) => Some(HealthStatus::Unknown),
    }
}

fn to_verdict(verdict: Option<Result<Health, HealthError>>) -> HealthVerdict {
    let known = |health: Health| HealthVerdict {
        status: Some(format!("{:?}", health.status)),
        message: health.message,
    };
    match verdict {
        None => HealthVerdict { status: None, message: String::new() },
        Some(Ok(health)) => known(health),
        Some(Err(HealthError::NoStatus { .. })) => {
            HealthVerdict { status: Some(String::new()), message: String::new() }
        }
        Some(Err(error)) => known(Health::from(error)),
    }
}

fn format_verdicts(all: &[ObjectVerdict<'_>], width: Option<u16>) -> Text {
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
