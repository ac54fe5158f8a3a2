//! Fuzz target for AppProjects and their permissions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_application::project;
use tidegate_application::sync_windows::SyncWindows;
use tidegate_fuzz::{document, now};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, ObjectKey, ProjectPolicy, TimeZoneRules};

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
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
        assert!(permitted.is_err(), "a project without destinations or repositories permits no operation");
    }
    for namespaced in [None, Some(true), Some(false)] {
        let key = ObjectKey::new("apps", "Deployment", "shop-a", "web");
        drop(project::check_object(&read, &target, &key, namespaced));
    }
    SyncWindows::for_application(&read, "shop-prod", &target, |_| Ok(TimeZoneRules::UTC))
        .find_hold(true, now());
});
