//! Results of writes, and their audit entries.

use serde_json::json;
use tidegate_cluster::WriteMode;
use tidegate_cluster::sim::Verb;
use tidegate_model::Object;

use super::{
    REPLACE, SSA, World, config_map, manifest, ms, object, request, with_encoded_fields, with_value, workload,
};

const CSA: WriteMode = WriteMode::ClientSideApply;
const RECREATE: WriteMode = WriteMode::Replace { recreate: true };

#[test]
fn creation_assigns_an_identity_and_reports_it() {
    for (mode, text, verb) in [
        (SSA, "configmap/web serverside-applied", Verb::Apply),
        (CSA, "configmap/web created", Verb::Create),
        (REPLACE, "configmap/web created", Verb::Create),
        (RECREATE, "configmap/web created", Verb::Create),
    ] {
        let mut world = World::new();
        let applied = world.write(&config_map("web", json!({"a": "1"})), mode).unwrap();
        assert_eq!((applied.is_created, applied.message.as_str()), (true, text));
        assert_eq!(applied.object.text("/metadata/creationTimestamp"), "2026-11-21T09:30:00Z");
        assert!(applied.object.uid().len() == 36 && !applied.object.resource_version().is_empty());
        assert_eq!(applied.object.generation(), 0, "config maps have no generations");
        let audit = world.last_audit();
        assert_eq!((audit.verb, audit.code, audit.dry_run), (verb, 201, false));
        assert_eq!(with_encoded_fields(world.get("ConfigMap", "web").unwrap()), applied.object);
    }
}

#[test]
fn a_write_without_changes_keeps_the_version() {
    for (mode, text) in [
        (SSA, "deployment.apps/api serverside-applied"),
        (CSA, "deployment.apps/api unchanged"),
        (REPLACE, "deployment.apps/api replaced"),
    ] {
        let mut world = World::new();
        let manifest = workload("Deployment", "api", "api:1", json!({}));
        world.write(&manifest, mode).unwrap();
        world.run_until_idle();
        let (before, revision) =
            (with_encoded_fields(world.get("Deployment", "api").unwrap()), world.state.revision());
        world.advance(ms(60_000));
        let again = world.write(&manifest, mode).unwrap();
        assert_eq!((again.is_created, again.message.as_str(), &again.object), (false, text, &before));
        assert_eq!(world.state.revision(), revision);
        assert_eq!(world.last_audit().code, 200);
    }
}

#[test]
fn only_a_changed_spec_increases_the_generation() {
    for mode in [SSA, CSA, REPLACE] {
        let mut world = World::new();
        let first = workload("Deployment", "api", "api:1", json!({}));
        let uid = world.write(&first, mode).unwrap().object.uid().to_owned();
        world.run_until_idle();
        let labelled = with_value(&first, "/metadata/labels", json!({"team": "a"}));
        let applied = world.write(&labelled, mode).unwrap().object;
        assert_eq!((applied.generation(), applied.uid()), (1, uid.as_str()));
        let scaled = world.write(&with_value(&labelled, "/spec/replicas", json!(2)), mode).unwrap();
        assert_eq!(scaled.object.generation(), 2);
        assert!(
            scaled.object.integer("/status/observedGeneration") == Some(1),
            "the controller has not run yet"
        );
        world.run_until_idle();
        let seen = world.get("Deployment", "api").unwrap();
        assert_eq!(
            (seen.integer("/status/observedGeneration"), seen.integer("/status/readyReplicas")),
            (Some(2), Some(2))
        );
        // The simulation annotations count as part of a workload's template.
        let annotated = with_value(
            &scaled.object,
            "/metadata/annotations",
            json!({"sim.tidegate.dev/outcome": "crashloop"}),
        );
        let manifest = with_value(
            &with_value(&labelled, "/spec/replicas", json!(2)),
            "/metadata/annotations",
            annotated.as_value()["metadata"]["annotations"].clone(),
        );
        assert_eq!(world.write(&manifest, mode).unwrap().object.generation(), 3);
    }
}

#[test]
fn omitted_fields_are_removed_and_those_of_others_remain() {
    for mode in [SSA, CSA] {
        let mut world = World::new();
        world.write(&config_map("web", json!({"a": "1", "b": "2"})), mode).unwrap();
        let other = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web", "namespace": "default", "labels": {"seen": "yes"}}, "data": {"c": "3"},
        }));
        world.state.apply_as(world.now, "somebody", request(&other, SSA)).unwrap();
        let after = world.write(&config_map("web", json!({"b": "2"})), mode).unwrap().object;
        assert_eq!(after.pointer("/data"), Some(&json!({"b": "2", "c": "3"})));
        assert_eq!(after.label("seen"), Some("yes"));
    }
    let mut world = World::new();
    world.write(&config_map("web", json!({"a": "1"})), SSA).unwrap();
    let replaced = world.write(&config_map("web", json!({"b": "2"})), REPLACE).unwrap().object;
    assert_eq!(replaced.pointer("/data"), Some(&json!({"b": "2"})));
}

#[test]
fn client_side_apply_stores_the_last_applied_manifest() {
    let mut world = World::new();
    world.write(&config_map("web", json!({"a": "1"})), CSA).unwrap();
    let changed = world.write(&config_map("web", json!({"a": "2"})), CSA).unwrap();
    assert_eq!(changed.message, "configmap/web configured");
    let kept = changed.object.annotation("kubectl.kubernetes.io/last-applied-configuration").unwrap();
    let kept: serde_json::Value = serde_json::from_str(kept).unwrap();
    assert_eq!(kept["data"], json!({"a": "2"}));
    assert_eq!(world.last_audit().verb, Verb::Patch);
}

#[test]
fn recreation_is_a_deletion_followed_by_a_creation() {
    let mut world = World::new();
    let job = workload("Job", "m", "m:1", json!({}));
    let before = world.write(&job, RECREATE).unwrap().object;
    world.run_until_idle();
    let changed = workload("Job", "m", "m:2", json!({}));
    let after = world.write(&changed, RECREATE).unwrap();
    assert!(after.is_created && after.object.uid() != before.uid());
    let audit: Vec<_> = world.state.audit().iter().map(|entry| (entry.verb, entry.code)).collect();
    assert_eq!(audit, [(Verb::Create, 201), (Verb::Delete, 200), (Verb::Create, 201)]);
    world.run_until_idle();
    assert_eq!(world.pods().len(), 1, "the old pod was deleted with its owner");

    let held = with_value(&job, "/metadata/name", json!("held"));
    let held = with_value(&held, "/metadata/finalizers", json!(["example.com/hold"]));
    world.apply(&held);
    let error = world.write(&held, RECREATE).unwrap_err();
    assert_eq!(error.message, "object is being deleted: jobs.batch \"held\" already exists");
}

#[test]
fn a_dry_run_validates_and_writes_nothing() {
    let mut world = World::new();
    world.apply(&workload("Deployment", "api", "api:1", json!({})));
    world.run_until_idle();
    let before: Vec<Object> = world.state.objects().cloned().collect();
    let revision = world.state.revision();
    for (name, code, created) in [("api", 200, false), ("new", 201, true)] {
        for mode in [SSA, CSA, REPLACE, RECREATE] {
            let mut dry = request(&workload("Deployment", name, "api:2", json!({})), mode);
            dry.dry_run = true;
            let applied = world.state.apply(world.now, dry).unwrap();
            assert!(applied.message.ends_with(" (server dry run)"), "{}", applied.message);
            assert_eq!(applied.object.text("/spec/template/spec/containers/0/image"), "api:2");
            let audit = world.last_audit();
            // If the object exists, only the deletion can be a dry run.
            let expected = if mode == RECREATE { (code, true) } else { (code, created) };
            assert_eq!((audit.code, applied.is_created, audit.dry_run), (expected.0, expected.1, true));
        }
    }
    let mut bad = request(&manifest("Deployment", "bad", json!({"spec": {}})), SSA);
    bad.dry_run = true;
    assert!(world.state.apply(world.now, bad).is_err());
    assert_eq!(world.last_audit().code, 422);
    assert_eq!((before, revision), (world.state.objects().cloned().collect(), world.state.revision()));
}

#[test]
fn names_are_generated_on_creation() {
    let nameless = |mode| {
        let mut world = World::new();
        let mut object = workload("Job", "x", "m:1", json!({}));
        object.metadata_mut().remove("name");
        object.metadata_mut().insert("generateName".to_owned(), "smoke-".into());
        (world.write(&object, mode), world.last_audit().name)
    };
    let (applied, audited) = nameless(REPLACE);
    let name = applied.unwrap().object.name().to_owned();
    assert!(name.starts_with("smoke-") && name.len() == 11 && audited == name, "{name}");
    assert!(nameless(SSA).0.unwrap_err().message.contains("name is required"));
}

#[test]
fn string_data_of_secrets_is_stored_encoded() {
    let mut world = World::new();
    let secret = world.apply(&manifest("Secret", "s", json!({"stringData": {"password": "tide"}})));
    assert_eq!(secret.pointer("/data"), Some(&json!({"password": "dGlkZQ=="})));
    assert!(secret.pointer("/stringData").is_none() && secret.text("/type") == "Opaque");
}

#[test]
fn the_audit_has_the_documented_format() {
    let mut world = World::new();
    let mut write = request(&config_map("web", json!({})), SSA);
    let operation: tidegate_model::OperationId = "0193b6a0-0000-7000-8000-000000000001".parse().unwrap();
    write.operation = Some(operation);
    world.state.apply(world.now, write).unwrap();
    let expected = r#"{"sequence":1,"verb":"apply","dryRun":false,"group":"","kind":"ConfigMap","namespace":"default","name":"web","operationId":"0193b6a0-0000-7000-8000-000000000001","code":201}"#;
    assert_eq!(serde_json::to_string(&world.last_audit()).unwrap(), expected);
    world.apply(&config_map("other", json!({})));
    assert!(serde_json::to_string(&world.last_audit()).unwrap().contains(r#""operationId":null"#));
}
