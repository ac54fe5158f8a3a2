//! Sync windows of projects: which of them are about an application, and what they say.

use std::time::Duration;

use tidegate_model::argo::{AppProject, SyncWindow};
use tidegate_model::{Blocked, DeployTarget, Opened, Timestamp, Window, WindowKind, Zone, blocked};

use crate::project::is_match;

/// What windows keep back is looked at again after this time, whatever they say: rules of time zones change.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The windows that are about one application, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    project: String,
    /// As they are kept with an operation.
    pub given: Vec<Window>,
    opened: Vec<Opened>,
    /// Why it cannot be told what they say: then nothing is synced.
    wrong: Option<String>,
}

/// Why an application is not synced now, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// In words, with the windows that are in the way.
    pub reason: String,
    /// When to look again.
    pub until: Timestamp,
}

impl Windows {
    /// Those of a project that are about an application of this name, which goes there. `zone` finds the rules of a time zone
    /// by its name.
    pub fn of(
        project: &AppProject,
        application: &str,
        target: &DeployTarget,
        zone: impl Fn(&str) -> Result<Zone, String>,
    ) -> Self {
        let mut windows = Self { project: project.metadata.name.clone(), ..Self::default() };
        for (number, window) in (1_usize..).zip(&project.spec.sync_windows) {
            let read = is_about(window, application, target)
                .and_then(|is_about| if is_about { read(window, &zone).map(Some) } else { Ok(None) });
            match read {
                Ok(None) => {}
                Ok(Some((given, opened))) => {
                    windows.given.push(given);
                    windows.opened.push(opened);
                }
                Err(problem) => {
                    windows.wrong.get_or_insert(format!("window {number}: {problem}"));
                }
            }
        }
        windows
    }

    /// Whether they keep it from being synced now.
    pub fn held(&self, manual: bool, now: Timestamp) -> Option<Held> {
        let project = &self.project;
        if let Some(problem) = &self.wrong {
            let reason = format!(
                "invalid sync windows: project {project}: {problem}; nothing is synced until that is mended"
            );
            return Some(Held { reason, until: now + LOOK_AGAIN_AFTER });
        }
        let Blocked { by, windows, until } = blocked(&self.opened, manual, None, now)?;
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
        // A moment later, because windows begin and end after whole seconds.
        let moment = Duration::from_secs(1);
        let again = now + LOOK_AGAIN_AFTER;
        Some(Held { reason, until: until.map_or(again, |until| (until + moment).min(again)) })
    }
}

fn read(
    window: &SyncWindow,
    zone: impl Fn(&str) -> Result<Zone, String>,
) -> Result<(Window, Opened), String> {
    let kind = match window.kind.as_str() {
        "allow" => WindowKind::Allow,
        "deny" => WindowKind::Deny,
        other => return Err(format!("kind {other:?} must be allow or deny")),
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
    let opened = Opened::of(&given, zone)?;
    Ok((given, opened))
}

/// Whether a window is about an application: one of what it names matches, or with `andOperator` all that it names.
fn is_about(window: &SyncWindow, application: &str, target: &DeployTarget) -> Result<bool, String> {
    let clusters: Vec<&str> =
        target.servers.iter().map(String::as_str).chain([target.name.as_str()]).collect();
    let said = [
        any("applications", &window.applications, &[application])?,
        any("clusters", &window.clusters, &clusters)?,
        any("namespaces", &window.namespaces, &[&target.namespace])?,
    ];
    let mut said = said.into_iter().flatten();
    Ok(if window.and_operator { said.all(|one| one) } else { said.any(|one| one) })
}

/// Whether one of the patterns matches one of the texts; nothing where there are no patterns.
fn any(field: &str, patterns: &[String], texts: &[&str]) -> Result<Option<bool>, String> {
    for pattern in patterns {
        for text in texts {
            if is_match(pattern, text).map_err(|error| format!("{field}: {error}"))? {
                return Ok(Some(true));
            }
        }
    }
    Ok((!patterns.is_empty()).then_some(false))
}
