//! Checks and gates for starting an operation, and reasons why an operation doesn't run.

use std::collections::BTreeSet;

use tidegate_application::credentials::without_credentials;
use tidegate_application::operation;
use tidegate_executor::{EngineError, GateDefinitions, Targets, WINDOW_PREFIX};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{ObjectKey, ProjectPolicy, ResourceSelector, Window};
use tidegate_planner::{Target, unknown_options};

use super::destinations::DestinationError;
use super::manifests::{RenderError, RenderedManifests};

/// Maximum number of resources to list in the error for a selection that doesn't match.
const RESOURCES_NAMED_MAX: usize = 10;

/// Reason why an operation doesn't run.
pub enum StartError {
    /// The operation is rejected.
    Refused(String),
    /// The operation's cluster is currently unreachable.
    Unreachable(String),
    /// The engine is stopping. It resumes the operation when it starts again.
    Stopped,
}

impl StartError {
    /// Returns the reason as text.
    pub fn into_reason(self) -> String {
        match self {
            Self::Refused(reason) | Self::Unreachable(reason) => reason,
            Self::Stopped => "the engine is stopping".to_owned(),
        }
    }
}

impl From<DestinationError> for StartError {
    fn from(none: DestinationError) -> Self {
        match none {
            DestinationError::Invalid(reason) => Self::Refused(reason),
            DestinationError::Unreachable(reason) | DestinationError::Unchecked(reason) => {
                Self::Unreachable(reason)
            }
        }
    }
}

impl From<RenderError> for StartError {
    fn from(error: RenderError) -> Self {
        if error.is_cluster_unreachable {
            Self::Unreachable(error.message)
        } else {
            Self::Refused(error.message)
        }
    }
}

impl From<EngineError> for StartError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. } => Self::Stopped,
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Rejects unknown sync options rather than silently ignoring them.
pub fn check_options(request: &OperationRequest) -> Result<(), String> {
    let options = request.sync.as_ref().map(|sync| sync.sync_options.as_slice()).unwrap_or_default();
    let wrong: Vec<String> = unknown_options(options)
        .into_iter()
        .map(|problem| format!("operation.sync.syncOptions: {problem}"))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// Rejects a selective sync if the selected resources don't exist.
pub fn check_selection(
    application: &Application,
    request: &OperationRequest,
    targets: &[Target],
    namespace: &str,
) -> Result<(), String> {
    let selectors = request.sync.iter().flat_map(|sync| &sync.resources);
    let selectors: Vec<ResourceSelector> = selectors.map(operation::to_selector).collect();
    if selectors.is_empty() {
        return Ok(());
    }
    let there = selectable_objects(application, targets, namespace);
    match selectors.iter().find(|one| !there.iter().any(|key| one.matches(key))) {
        Some(unknown) => Err(no_match_error(application, unknown, targets)),
        None => Ok(()),
    }
}

/// Returns the objects that a sync can select: those in the manifests and those in the status.
fn selectable_objects(application: &Application, targets: &[Target], namespace: &str) -> BTreeSet<ObjectKey> {
    let wanted = targets.iter().flat_map(|target| {
        let key = target.object.key();
        // The scope of the object's kind isn't known here, so accept both keys.
        let placed = ObjectKey { namespace: namespace.to_owned(), ..key.clone() };
        let placed = key.namespace.is_empty().then_some(placed);
        std::iter::once(key).chain(placed)
    });
    wanted.chain(status_objects(application)).collect()
}

/// Returns the objects that a sync can select, without duplicates, for display in messages.
fn displayed_objects(application: &Application, targets: &[Target]) -> BTreeSet<ObjectKey> {
    let known = status_objects(application);
    let is_same = |one: &ObjectKey, key: &ObjectKey| {
        (&one.group, &one.kind, &one.name) == (&key.group, &key.kind, &key.name)
            && (key.namespace.is_empty() || one.namespace == key.namespace)
    };
    let wanted = targets.iter().map(|target| target.object.key());
    let others: Vec<_> = wanted.filter(|key| !known.iter().any(|one| is_same(one, key))).collect();
    known.into_iter().chain(others).collect()
}

fn status_objects(application: &Application) -> BTreeSet<ObjectKey> {
    let known = application.status.resources.iter();
    known.map(|one| ObjectKey::new(&one.group, &one.kind, &one.namespace, &one.name)).collect()
}

fn no_match_error(application: &Application, unknown: &ResourceSelector, targets: &[Target]) -> String {
    let there = displayed_objects(application, targets);
    let of_kind = there.iter().filter(|key| key.kind == unknown.kind && key.group == unknown.group);
    let of_kind: Vec<String> = of_kind.map(format_selector).collect();
    let all = || there.iter().map(format_selector).collect::<Vec<_>>();
    let mut names = if of_kind.is_empty() { all() } else { of_kind };
    let more = names.len().saturating_sub(RESOURCES_NAMED_MAX);
    names.truncate(RESOURCES_NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let ResourceSelector { group, kind, namespace, name } = unknown;
    let unknown = ObjectKey::new(group, kind, namespace, name);
    format!(
        "application {} has no resource {}; it has {}{more}",
        application.metadata.name,
        format_selector(&unknown),
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )
}

/// Formats an object for use with `--resource`, such as `apps:Deployment:shop/api`.
fn format_selector(key: &ObjectKey) -> String {
    let ObjectKey { group, kind, namespace, name, .. } = key;
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{group}:{kind}:{namespace}{slash}{name}")
}

/// Returns the policy extended with the repositories from which additional dependencies were fetched. The
/// project must permit these repositories during all writes.
pub fn allow_fetched(mut policy: ProjectPolicy, manifests: &RenderedManifests) -> ProjectPolicy {
    let fetched = manifests.fetched.iter().map(|used| without_credentials(&used.source.repo_url));
    let all: BTreeSet<String> = policy.repositories.into_iter().chain(fetched).collect();
    policy.repositories = all.into_iter().collect();
    policy
}

/// Returns an operation's targets without manifests: its gates and its project policy. Each wave waits for
/// the sync windows that applied when the operation started. They are persisted with the operation, and
/// replace any other definition under the project's name.
pub fn operation_targets(
    definitions: GateDefinitions,
    windows: Vec<Window>,
    policy: ProjectPolicy,
) -> Targets {
    let mut targets = Targets { definitions, ..Targets::default() };
    if !windows.is_empty() {
        targets.gates.push(format!("{WINDOW_PREFIX}{}", policy.project));
        targets.definitions.windows.insert(policy.project.clone(), windows);
    }
    Targets { mandate: Some(policy), ..targets }
}
