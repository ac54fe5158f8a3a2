//! Fuzz target for Applications. Serialization must round-trip, and all derived values must be computable.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tidegate_application::refresh::{self, RefreshLevel};
use tidegate_application::sources::Sources;
use tidegate_application::sync_windows::SyncWindows;
use tidegate_application::{
    automated_sync, comparison, credentials, deletion, dependencies, operation, project,
};
use tidegate_fuzz::{document, now};
use tidegate_model::argo::Application;
use tidegate_model::{DeployTarget, Destination, TimeZoneRules};

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
    let Ok(read) = serde_json::from_value::<Application>(document) else { return };
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
    let place = || (Destination::Simulated, "shop".to_owned());
    if let Ok(sources) = operation::operation_sources(&read, &asked)
        && let Ok(revisions) = operation::operation_revisions(&asked, &sources)
    {
        drop(operation::sync_request(&read, &asked, place(), &revisions));
    }
    drop(operation::rollback_operation(&read, None, true));
    drop(deletion::deletion_request(&read, &asked, place()));
    assert!(Sources::from_application(&read).as_slice().len() <= 1 + read.spec.sources.len());
});
