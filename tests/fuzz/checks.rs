//! Checks of invalid input, shared with the targets in `fuzz/`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tidegate_application::refresh::{self, RefreshLevel};
use tidegate_application::sources::Sources;
use tidegate_application::sync_windows::SyncWindows;
use tidegate_application::{
    automated_sync, comparison, credentials, deletion, dependencies, operation, project,
};
use tidegate_generate::{GenerateOutcome, GeneratorInputs, Options, generate};
use tidegate_model::argo::{AppProject, Application, ApplicationSet};
use tidegate_model::{
    DeployTarget, Destination, Discovery, Glob, LiveObject, ObjectKey, OperationId, ParsedWindow,
    ProjectPolicy, SyncRequest, TimeZoneRules, Timestamp, Window, WindowKind, find_block, next_window_change,
};
use tidegate_planner::manifests::{Limits, Target, parse, parse_each};
use tidegate_planner::{PlanInput, plan};
use uuid::Uuid;

/// Time zone rules of Berlin, which don't depend on a time zone database on this machine.
const RULE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// Returns the fixed time of all checks.
pub fn now() -> Timestamp {
    Timestamp::from_millis(1_795_253_400_000)
}

/// Returns the lines of an input. The remaining lines are empty.
pub fn lines<const N: usize>(input: &[u8]) -> [String; N] {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    std::array::from_fn(|_| lines.next().unwrap_or_default().to_owned())
}

/// Checks that an Application round-trips through serialization, and that all derived values are computable.
/// Returns `None` for other documents.
pub fn check_application(document: Value) -> Option<Application> {
    let read = serde_json::from_value::<Application>(document).ok()?;
    let written = serde_json::to_value(&read).expect("an Application is serializable");
    let again: Application = serde_json::from_value(written).expect("serialized data is readable");
    assert_eq!(again, read, "serialization round-trips");
    credentials::application_without_credentials(&read);
    read.unknown_fields();
    dependencies::dependencies_of(&read);
    let project = project::permissive_project();
    let windows =
        SyncWindows::for_application(&project, &read.metadata.name, &DeployTarget::default(), |_| {
            Ok(TimeZoneRules::UTC)
        });
    refresh::due_refresh(&read, Some(RefreshLevel::Recent), now(), Duration::from_secs(180));
    let mut app = read.clone();
    automated_sync::update_waiting_operation(&mut app, now());
    automated_sync::apply_comparison(&mut app, &windows, now());
    deletion::decide_deletion(&mut app, true, now());
    comparison::record_invalid_spec(&mut app, "it is wrong".to_owned(), now());
    operation::comparison_request(&read, Destination::Simulated, "shop".to_owned());
    let asked = read.operation.clone().unwrap_or_default();
    let namespace = || "shop".to_owned();
    if let Ok(sources) = operation::operation_sources(&read, &asked)
        && let Ok(revisions) = operation::operation_revisions(&asked, &sources)
    {
        drop(operation::sync_request(&read, &asked, Destination::Simulated, namespace(), &revisions));
    }
    drop(operation::rollback_operation(&read, None, true));
    drop(deletion::deletion_request(&read, &asked, Destination::Simulated, namespace()));
    assert!(Sources::from_application(&read).as_slice().len() <= 1 + read.spec.sources.len());
    Some(read)
}

/// Checks that a project round-trips through serialization, and decides what it permits. Ignores other
/// documents.
pub fn check_project(document: Value) {
    let Ok(read) = serde_json::from_value::<AppProject>(document) else { return };
    let written = serde_json::to_value(&read).expect("a project is serializable");
    let again: AppProject = serde_json::from_value(written).expect("serialized data is readable");
    assert_eq!(again, read, "serialization round-trips");
    read.unknown_fields();
    let target = DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned()],
        name: "in-cluster".to_owned(),
        project: String::new(),
        namespace: "shop-a".to_owned(),
    };
    let repositories = vec!["https://example.com/shop".to_owned()];
    let mandate = ProjectPolicy { target: target.clone(), repositories, ..ProjectPolicy::default() };
    let permitted = project::check_operation(&read, &mandate, "argocd");
    if read.spec.destinations.is_empty() || read.spec.source_repos.is_empty() {
        assert!(permitted.is_err(), "a project without destinations or repositories permits none");
    }
    for namespaced in [None, Some(true), Some(false)] {
        let key = ObjectKey::new("apps", "Deployment", "shop-a", "web");
        drop(project::check_object(&read, &target, &key, namespaced));
    }
    SyncWindows::for_application(&read, "shop-prod", &target, |_| Ok(TimeZoneRules::UTC))
        .find_hold(true, now());
}

/// Generates Applications twice and checks that the results are equal. Returns `None` if the set is invalid.
pub fn check_generation(
    set: &ApplicationSet,
    inputs: &mut dyn GeneratorInputs,
    options: &Options,
) -> Option<GenerateOutcome> {
    let generated = generate(set, inputs, options);
    match (generated, generate(set, inputs, options)) {
        (Ok(generated), Ok(again)) => {
            assert_eq!(generated, again, "generation is deterministic");
            Some(generated)
        }
        (Err(errors), Err(_)) => {
            assert!(!errors.to_string().is_empty());
            None
        }
        _ => panic!("generation is deterministic"),
    }
}

/// Checks that an allow window and a deny window with the same schedule agree. Ignores invalid windows.
pub fn check_window([schedule, duration, time_zone]: [String; 3]) {
    let window = |kind| Window {
        kind,
        schedule: schedule.clone(),
        duration: duration.clone(),
        time_zone: time_zone.clone(),
        manual_sync: false,
        sync_overrun: true,
        description: String::new(),
    };
    let zone = |name: &str| TimeZoneRules::from_posix_rule(if name == "Europe/Berlin" { RULE } else { name });
    let read = |kind| ParsedWindow::parse(&window(kind), zone);
    let (Ok(allow), Ok(deny)) = (read(WindowKind::Allow), read(WindowKind::Deny)) else { return };
    for days in [0, 30, 130, 400] {
        let at = now() + Duration::from_secs(86_400 * days);
        let is_denied = find_block(std::slice::from_ref(&deny), false, None, at).is_some();
        let is_allowed = find_block(std::slice::from_ref(&allow), false, None, at).is_none();
        assert_eq!(is_denied, is_allowed, "allow and deny windows agree: {schedule:?} for {duration:?}");
        next_window_change(&[allow.clone(), deny.clone()], at);
    }
}

/// Parses a pattern with each syntax of globs and matches a text with it.
pub fn check_glob(pattern: &str, text: &str) {
    for glob in [Glob::parse(pattern), Glob::with_separator(pattern, '/')].into_iter().flatten() {
        glob.matches(text);
    }
}

/// Checks that both parsers of manifests agree, and that planning is deterministic. Returns the valid objects.
pub fn check_manifests(input: &[u8]) -> Vec<Target> {
    let (known, terminating, discovery) = (BTreeSet::new(), BTreeSet::new(), Discovery::default());
    let limits = Limits::default();
    let all = parse("a.yaml", input, &limits);
    let (targets, errors) = parse_each("a.yaml", input, &limits);
    assert_eq!(all.is_ok(), errors.is_empty(), "both parsers agree on errors");
    for error in &errors {
        assert!(!error.to_string().is_empty());
    }
    let request = SyncRequest::new("shop", "shop", Destination::Simulated);
    let planned = |live: &[LiveObject]| {
        plan(PlanInput {
            operation: OperationId(Uuid::from_u128(1)),
            request: &request,
            started_at: now(),
            targets: targets.clone(),
            live,
            inventory: &known,
            unchanged_hooks: &known,
            terminating_namespaces: &terminating,
            discovery: &discovery,
            is_offline: true,
        })
    };
    assert_eq!(planned(&[]), planned(&[]), "planning is deterministic");
    let live: Vec<LiveObject> =
        targets.iter().step_by(2).map(|target| LiveObject::pack(target.object.clone())).collect();
    planned(&live);
    targets
}
