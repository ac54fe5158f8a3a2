//! A project's sync windows that apply to an application.

use std::time::Duration;

use tidegate_model::argo::{AppProject, SyncWindow};
use tidegate_model::{
    DeployTarget, InvalidGlob, ParsedWindow, TimeZoneRules, Timestamp, Window, WindowBlock, WindowKind,
    find_block,
};

use crate::project::is_match;
use crate::repository_name::matches_server;

/// Maximum delay before blocked operations are checked again. It is limited because time zone rules can
/// change.
const RECHECK_AFTER_MAX: Duration = Duration::from_secs(600);

/// Parsed windows that apply to one application.
#[derive(Clone, Debug, Default)]
pub struct SyncWindows {
    project: String,
    /// Windows in the form stored with an operation.
    pub stored_form: Vec<Window>,
    parsed: Vec<ParsedWindow>,
    /// Error in a window, if any. An invalid window blocks all syncs.
    error: Option<String>,
}

/// Reason an application can't be synced now, and the time to check again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowHold {
    /// Message that describes the blocking windows.
    pub reason: String,
    /// Time at which the windows are checked again.
    pub next_check: Timestamp,
}

impl WindowHold {
    /// Returns the error for a requested sync.
    pub fn sync_error(&self) -> String {
        format!("cannot sync: blocked by sync window: {}", self.reason)
    }
}

impl SyncWindows {
    /// Returns a project's windows that apply to an application with this name and target. `zone` looks up
    /// time zone rules by name.
    pub fn for_application(
        project: &AppProject,
        application: &str,
        target: &DeployTarget,
        zone: impl Fn(&str) -> Result<TimeZoneRules, String>,
    ) -> Self {
        let mut windows = Self { project: project.metadata.name.clone(), ..Self::default() };
        for (number, window) in (1_usize..).zip(&project.spec.sync_windows) {
            let read = applies_to(window, application, target)
                .and_then(|is_about| if is_about { parse_window(window, &zone).map(Some) } else { Ok(None) });
            match read {
                Ok(None) => {}
                Ok(Some((given, opened))) => {
                    windows.stored_form.push(given);
                    windows.parsed.push(opened);
                }
                Err(problem) => {
                    windows.error.get_or_insert(format!("window {number}: {problem}"));
                }
            }
        }
        windows
    }

    /// Returns the reason a sync is currently blocked, or `None` if it isn't.
    pub fn find_hold(&self, manual: bool, now: Timestamp) -> Option<WindowHold> {
        let project = &self.project;
        if let Some(problem) = &self.error {
            let reason = format!(
                "invalid sync windows: project {project}: {problem}; the project's applications will not be \
                 synced until this is fixed"
            );
            return Some(WindowHold { reason, next_check: now + RECHECK_AFTER_MAX });
        }
        let WindowBlock { kind: by, windows, expected_end: until } =
            find_block(&self.parsed, manual, None, now)?;
        let what = match by {
            WindowKind::Deny => "denied by",
            WindowKind::Allow => "not allowed outside of",
        };
        let named = windows.join(", ");
        let end = match until {
            Some(until) => format!(" until {}", until.to_string().replace(".000Z", "Z")),
            None => String::new(),
        };
        let reason = format!("syncs are {what} sync window {named} of project {project}{end}");
        // Windows start and end just after full seconds, so check a moment later.
        let moment = Duration::from_secs(1);
        let again = now + RECHECK_AFTER_MAX;
        Some(WindowHold { reason, next_check: until.map_or(again, |until| (until + moment).min(again)) })
    }
}

fn parse_window(
    window: &SyncWindow,
    zone: impl Fn(&str) -> Result<TimeZoneRules, String>,
) -> Result<(Window, ParsedWindow), String> {
    let kind = match window.kind.as_str() {
        "allow" => WindowKind::Allow,
        "deny" => WindowKind::Deny,
        other => return Err(format!("invalid kind {other:?}: use allow or deny")),
    };
    let given = Window {
        kind,
        schedule: window.schedule.clone(),
        duration: window.duration.clone(),
        time_zone: window.time_zone.clone(),
        manual_sync: window.manual_sync,
        sync_overrun: window.sync_overrun,
        description: window.description.clone(),
    };
    let opened = ParsedWindow::parse(&given, zone)?;
    Ok((given, opened))
}

/// Returns true if a window applies to an application: at least one of its selectors matches or, with
/// `andOperator`, all of them do.
fn applies_to(window: &SyncWindow, application: &str, target: &DeployTarget) -> Result<bool, String> {
    let servers: Vec<&str> = target.servers.iter().map(String::as_str).collect();
    let of_cluster =
        |pattern: &str| Ok(is_match(pattern, &target.name)? || matches_server(pattern, &servers)?);
    let said = [
        matches_any("applications", &window.applications, |pattern| is_match(pattern, application))?,
        matches_any("clusters", &window.clusters, of_cluster)?,
        matches_any("namespaces", &window.namespaces, |pattern| is_match(pattern, &target.namespace))?,
    ];
    let mut said = said.into_iter().flatten();
    Ok(if window.and_operator { said.all(|one| one) } else { said.any(|one| one) })
}

/// Returns true if any of the patterns matches, or `None` if there are no patterns.
fn matches_any(
    field: &str,
    patterns: &[String],
    matches: impl Fn(&str) -> Result<bool, InvalidGlob>,
) -> Result<Option<bool>, String> {
    for pattern in patterns {
        if matches(pattern).map_err(|error| format!("{field}: {error}"))? {
            return Ok(Some(true));
        }
    }
    Ok((!patterns.is_empty()).then_some(false))
}
