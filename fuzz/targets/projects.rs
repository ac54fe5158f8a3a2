//! Projects, and what they permit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_application::project;
use tidegate_application::windows::Windows;
use tidegate_fuzz::{document, now};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, Mandate, ObjectKey, Zone};

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
    let Ok(read) = serde_json::from_value::<AppProject>(document) else { return };
    let written = serde_json::to_value(&read).expect("a project can be written");
    let again: AppProject = serde_json::from_value(written).expect("what is written can be read");
    assert_eq!(again, read, "what is written is read as the same");
    read.unknown_fields();
    let target = DeployTarget {
        servers: vec!["https://kubernetes.default.svc".to_owned()],
        name: "in-cluster".to_owned(),
        project: String::new(),
        namespace: "shop-a".to_owned(),
    };
    let repositories = vec!["https://example.com/shop".to_owned()];
    let mandate = Mandate { target: target.clone(), repositories, ..Mandate::default() };
    let permitted = project::check(&read, &mandate, "argocd");
    if read.spec.destinations.is_empty() || read.spec.source_repos.is_empty() {
        assert!(permitted.is_err(), "who names no destination or repository permits none");
    }
    for namespaced in [None, Some(true), Some(false)] {
        let key = ObjectKey::new("apps", "Deployment", "shop-a", "web");
        drop(project::check_object(&read, &target, &key, namespaced));
    }
    Windows::of(&read, "shop-prod", &target, |_| Ok(Zone::UTC)).held(true, now());
});
