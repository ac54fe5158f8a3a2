//! Parsing and planning of a real 2 MB installation manifest.

use std::fs;

use tidegate_planner::{Limits, manifests::parse};

use crate::support::case;

#[test]
fn the_installation_manifest_of_argo_cd() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/samples/argo-cd-install.yaml");
    let Ok(content) = fs::read(path) else {
        eprintln!("not tested: the sample manifest is not on this machine");
        return;
    };
    let targets = parse("install.yaml", &content, &Limits::default()).unwrap();
    let text = String::from_utf8(content).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for target in &targets {
        let line = lines[usize::try_from(target.origin.line).unwrap() - 1];
        assert!(line.starts_with("apiVersion:"), "{}: {line}", target.origin);
    }
    let mut case = case("");
    case.targets = targets;
    let planned = case.plan();
    assert!(planned.plan.warnings.is_empty(), "{:?}", planned.plan.warnings);
    assert_eq!(planned.plan.tasks.len(), case.targets.len());
    assert_eq!(planned.manifests.len(), case.targets.len());
    assert_eq!(planned.plan.waves.len(), 1);
}
