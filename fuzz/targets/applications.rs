//! Applications: what is written is read as the same, and all that follows from one can be said.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tidegate_application::refresh::{self, Level};
use tidegate_application::sources::Sources;
use tidegate_application::windows::Windows;
use tidegate_application::{automation, comparison, credentials, deletion, dependencies, operation, project};
use tidegate_fuzz::{document, now};
use tidegate_model::argo::Application;
use tidegate_model::{DeployTarget, Destination, Zone};

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
    let Ok(read) = serde_json::from_value::<Application>(document) else { return };
    let written = serde_json::to_value(&read).expect("an Application can be written");
    let again: Application = serde_json::from_value(written).expect("what is written can be read");
    assert_eq!(again, read, "what is written is read as the same");
    credentials::shown(&read);
    read.unknown_fields();
    dependencies::of(&read);
    let project = project::permissive();
    let windows = Windows::of(&project, &read.metadata.name, &DeployTarget::default(), |_| Ok(Zone::UTC));
    refresh::needed(&read, Some(Level::Recent), now(), Duration::from_secs(180));
    let mut app = read.clone();
    automation::renew(&mut app, now());
    automation::take_in(&mut app, &windows, now());
    deletion::take_in(&mut app, true, now());
    comparison::refuse(&mut app, "it is wrong".to_owned(), now());
    operation::comparison(&read, Destination::Simulated, "shop".to_owned());
    let asked = read.operation.clone().unwrap_or_default();
    let place = || (Destination::Simulated, "shop".to_owned());
    if let Ok(sources) = operation::sources(&read, &asked)
        && let Ok(revisions) = operation::revisions(&asked, &sources)
    {
        drop(operation::request(&read, &asked, place(), &revisions));
    }
    drop(operation::rollback(&read, None, true));
    drop(deletion::request(&read, &asked, place()));
    assert!(Sources::of(&read).all().len() <= 1 + read.spec.sources.len());
});
