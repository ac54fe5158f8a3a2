//! Writes and deletions in all modes.

use tidegate_cluster::{DeleteResult, ErrorKind, FinalizerRemoval, JobStart};

use super::*;

fn binding(namespace: &str, role: &str) -> Object {
    object(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "readers", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }))
}

pub async fn each_mode_reports_its_effect_like_kubectl() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("modes").await.unwrap());
    let mark = control.audit_mark();
    for (mode, name, messages) in [
        (APPLY, "a", ["serverside-applied", "serverside-applied", "serverside-applied"]),
        (WriteMode::ClientSideApply, "b", ["created", "unchanged", "configured"]),
        (REPLACE, "c", ["created", "replaced", "replaced"]),
        (WriteMode::Replace { recreate: true }, "d", ["created", "created", "created"]),
    ] {
        let (first, second) = (
            config_map(&namespace, name, json!({"x": "1"})),
            config_map(&namespace, name, json!({"x": "2"})),
        );
        let trial = ApplyRequest { dry_run: true, ..request(&first, mode) };
        let applied = cluster.apply(trial).await.unwrap();
        assert_eq!(applied.message, format!("configmap/{name} {} (server dry run)", messages[0]));
        assert_eq!(read(&cluster, &first).await, None);
        for (manifest, message) in [&first, &first, &second].into_iter().zip(messages) {
            let applied = write(&cluster, manifest, mode).await.unwrap();
            assert_eq!(applied.message, format!("configmap/{name} {message}"));
            let live = read(&cluster, manifest).await.unwrap();
            assert_eq!(live.uid(), applied.object.uid());
            assert_eq!(live.pointer("/data"), manifest.pointer("/data"));
        }
    }
    let audit = control.audit_in_namespace(mark, &namespace).await.unwrap().by_user(User::ENGINE);
    let agent = format!("tidegate/0.1.0 (operation/{OPERATION})");
    assert!(
        audit
            .0
            .iter()
            .filter(|event| event.is_write())
            .all(|event| event.user_agent == agent || event.verb == "delete")
    );
}

pub async fn client_side_apply_keeps_foreign_fields_and_migrates_to_server_side() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("csa").await.unwrap());
    let both = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    let (both, second) = (
        deployment(&namespace, "web", both),
        deployment(&namespace, "web", json!([{"name": "B", "value": "3"}])),
    );
    let env = "/spec/template/spec/containers/0/env";
    write(&cluster, &both, WriteMode::ClientSideApply).await.unwrap();
    let place = format!("/apis/apps/v1/namespaces/{namespace}/deployments/web");
    let observer = control.client(User::OBSERVER);
    observer.patch(&place, &json!({"metadata": {"labels": {"by": "another"}}})).await.unwrap();
    assert_eq!(read(&cluster, &both).await.unwrap().pointer(env), both.pointer(env));
    let applied = write(&cluster, &second, WriteMode::ClientSideApply).await.unwrap();
    assert_eq!((applied.is_created, applied.object.pointer(env)), (false, second.pointer(env)));
    assert_eq!(applied.object.label("by"), Some("another"));

    // After the takeover, `tidegate` owns the fields of client-side apply, so dropping a field from the
    // manifest removes it.
    let none = deployment(&namespace, "web", Value::Null);
    let mut with_owner = ApplyRequest { take_over: vec!["tidegate".to_owned()], ..request(&none, APPLY) };
    let container = &mut with_owner.object.fields_mut()["spec"]["template"]["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("env");
    let applied = cluster.apply(with_owner).await.unwrap();
    assert_eq!(applied.object.pointer(env), None);
    let managers = applied.object.pointer("/metadata/managedFields").unwrap().as_array().unwrap().clone();
    let ours: Vec<&Value> = managers.iter().filter(|entry| entry["manager"] == "tidegate").collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0]["operation"], "Apply");
}

pub async fn a_binding_to_another_role_is_recreated() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("rbac").await.unwrap());
    let first = write(&cluster, &binding(&namespace, "view"), WriteMode::ClientSideApply).await.unwrap();
    let again = write(&cluster, &binding(&namespace, "view"), WriteMode::ClientSideApply).await.unwrap();
    assert_eq!(first.object.uid(), again.object.uid());
    for (mode, server_side) in [(WriteMode::ClientSideApply, false), (APPLY, true)] {
        let role = if server_side { "admin" } else { "edit" };
        let refused = write(&cluster, &binding(&namespace, role), mode).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
        let before = read(&cluster, &binding(&namespace, role)).await.unwrap();
        let anew = WriteMode::Recreate { server_side };
        let other = write(&cluster, &binding(&namespace, role), anew).await.unwrap();
        assert!(other.is_created && other.object.uid() != before.uid());
        assert_eq!(other.object.text("/roleRef/name"), role);
    }
}

pub async fn conflicts_name_the_field_and_its_owner() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("owners").await.unwrap());
    let place = format!("/api/v1/namespaces/{namespace}/configmaps/a?fieldManager=tuner");
    let theirs = config_map(&namespace, "a", json!({"x": "1", "y": "1"}));
    control.client(User::OBSERVER).apply(&place, theirs.as_value()).await.unwrap();
    let ours = config_map(&namespace, "a", json!({"x": "2", "y": "2"}));
    let refused = write(&cluster, &ours, WriteMode::Apply { force: false }).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    // Newer servers include the version in the message.
    let text = &refused.message;
    assert!(text.starts_with("Apply failed with 2 conflicts: conflicts with \"tuner\""), "{text}");
    assert!(text.ends_with(": .data.x, .data.y"), "{text}");
    assert_eq!(write(&cluster, &ours, APPLY).await.unwrap().object.pointer("/data"), ours.pointer("/data"));
}

pub async fn a_new_kind_is_usable_once_its_definition_is_written() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("kinds").await.unwrap());
    let group = format!("{}.example.org", control.unique_name("kinds"));
    // The definition has a namespace, because planners set the destination's namespace on every object.
    let definition = object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("foos.{group}"), "namespace": namespace},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    }));
    let custom = object(json!({
        "apiVersion": format!("{group}/v1"), "kind": "Foo", "metadata": {"name": "f", "namespace": namespace},
        "spec": {"size": 1},
    }));
    for _ in 0..3 {
        assert_eq!(write(&cluster, &custom, APPLY).await.unwrap_err().kind, ErrorKind::UnknownKind);
        write(&cluster, &definition, APPLY).await.unwrap();
        let applied = write(&cluster, &custom, APPLY).await.unwrap();
        assert_eq!(applied.object.integer("/spec/size"), Some(1));
        let mark = control.audit_mark();
        write(&cluster, &definition, APPLY).await.unwrap();
        let audit = control.audit_since(mark).await.unwrap();
        let about =
            audit.filter(|event| event.name == definition.name() && event.user == User::ENGINE.name());
        assert_eq!(about.0.len(), 1, "unchanged definitions are not awaited");

        let live = read(&cluster, &object(with_namespace(&definition, ""))).await.unwrap();
        cluster.delete(delete(&live, Propagation::Foreground)).await.unwrap();
        let place = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", definition.name());
        control.client(User::OBSERVER).wait_until(&place, |definition| definition.is_none()).await;
        let gone = async {
            while cluster.get(&custom.gvk(), &namespace, "f").await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, gone).await.unwrap();
    }
}

fn with_namespace(object: &Object, namespace: &str) -> Value {
    let mut object = object.clone();
    object.set_namespace(namespace);
    object.into()
}

pub async fn deletions_target_one_object_and_report_whether_it_is_gone() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("deletes").await.unwrap());
    let plain = write(&cluster, &config_map(&namespace, "a", json!({})), APPLY).await.unwrap().object;
    let other = DeleteRequest { uid: "another".to_owned(), ..delete(&plain, Propagation::Background) };
    assert_eq!(cluster.delete(other).await.unwrap_err().kind, ErrorKind::Conflict);
    let trial = DeleteRequest { dry_run: true, ..delete(&plain, Propagation::Background) };
    assert_eq!(cluster.delete(trial).await.unwrap(), DeleteResult::Gone);
    assert!(read(&cluster, &plain).await.is_some());
    assert_eq!(cluster.delete(delete(&plain, Propagation::Background)).await.unwrap(), DeleteResult::Gone);
    let absent = cluster.delete(delete(&plain, Propagation::Background)).await.unwrap_err();
    assert_eq!(absent.kind, ErrorKind::NotFound);

    let mut held = config_map(&namespace, "b", json!({}));
    held.add_finalizer("example.org/hold");
    held.add_finalizer("example.org/other");
    let held = write(&cluster, &held, APPLY).await.unwrap().object;
    for propagation in [Propagation::Foreground, Propagation::Background, Propagation::Orphan] {
        assert_eq!(cluster.delete(delete(&held, propagation)).await.unwrap(), DeleteResult::Deleting);
    }
    let remove = |name: &'static str, uid: &str| {
        let removal = FinalizerRemoval { uid: uid.to_owned(), ..FinalizerRemoval::for_object(&held, name) };
        let cluster = cluster.clone();
        async move { cluster.remove_finalizer(removal).await.unwrap() }
    };
    remove("example.org/hold", "another").await;
    assert!(read(&cluster, &held).await.unwrap().has_finalizer("example.org/hold"));
    remove("example.org/hold", held.uid()).await;
    remove("example.org/hold", held.uid()).await;
    assert!(read(&cluster, &held).await.unwrap().has_finalizer("example.org/other"));
    remove("example.org/other", held.uid()).await;
    remove("example.org/other", held.uid()).await;
    // The orphaning deletion has left a finalizer, which the garbage collector removes later.
    let place = format!("/api/v1/namespaces/{namespace}/configmaps/b");
    control.client(User::OBSERVER).wait_until(&place, |object| object.is_none()).await;
}

pub async fn a_suspended_job_starts_only_under_its_uid() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("suspended").await.unwrap());
    let containers = json!([{"name": "main", "image": "busybox"}]);
    let mut manifest = object(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }));
    manifest.suspend_job();
    let create = WriteMode::Create { client_side: true };
    let first = write(&cluster, &manifest, create).await.unwrap().object;
    if control.minor() < 22 {
        assert!(!first.is_unstarted_job(), "an old server ignores the field, and runs the Job");
        return;
    }
    assert!(first.is_unstarted_job());
    let start = |uid: &str| {
        let request = JobStart {
            gvk: first.gvk(),
            namespace: namespace.clone(),
            name: "migrate".to_owned(),
            uid: uid.to_owned(),
            operation: Some(OPERATION.parse().unwrap()),
        };
        let cluster = cluster.clone();
        async move { cluster.start_job(request).await }
    };
    assert_eq!(start("another").await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(read(&cluster, &first).await.unwrap().is_unstarted_job());
    // The second call has no effect.
    for _ in 0..2 {
        let started = start(first.uid()).await.unwrap();
        assert_eq!((started.uid(), started.pointer("/spec/suspend")), (first.uid(), Some(&json!(false))));
        assert_eq!(started.annotation(tidegate_model::annotations::HOOK_START), None);
    }
    cluster.delete(delete(&first, Propagation::Background)).await.unwrap();
    let place = format!("/apis/batch/v1/namespaces/{namespace}/jobs/migrate");
    control.client(User::OBSERVER).wait_until(&place, |object| object.is_none()).await;
    assert_eq!(start(first.uid()).await.unwrap_err().kind, ErrorKind::NotFound);
    let second = write(&cluster, &manifest, create).await.unwrap().object;
    assert_eq!(start(first.uid()).await.unwrap_err().kind, ErrorKind::NotFound);
    assert!(read(&cluster, &second).await.unwrap().is_unstarted_job());
}

pub async fn refusals_contain_their_reason() {
    let control = ControlPlane::shared();
    let (engine, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("refused").await.unwrap());
    let user = control
        .create_limited_user(&[(
            Some(&namespace),
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]),
        )])
        .await
        .unwrap();
    let limited = cluster(control, &user).await;
    let big = |bytes: usize| config_map(&namespace, "big", json!({"x": "x".repeat(bytes)}));
    let mut unknown = config_map(&namespace, "a", json!({}));
    unknown.fields_mut().insert("colour".to_owned(), json!("blue"));
    let forbidden = format!(
        "User {:?} cannot patch resource \"configmaps\" in API group \"\" in the namespace {namespace:?}",
        user.name()
    );
    for (cluster, manifest, kind, text) in [
        (
            &engine,
            config_map("not-there", "a", json!({})),
            ErrorKind::NamespaceMissing,
            "namespaces \"not-there\" not found",
        ),
        (&engine, config_map("", "a", json!({})), ErrorKind::Invalid, "a namespace is required"),
        (&engine, config_map(&namespace, "", json!({})), ErrorKind::Invalid, "name is required"),
        (&engine, config_map(&namespace, "A_b", json!({})), ErrorKind::Invalid, "A_b"),
        (&engine, unknown, ErrorKind::Invalid, "colour"),
        (&engine, big(1_600_000), ErrorKind::Invalid, " 1048576 bytes"),
        (&engine, big(3_600_000), ErrorKind::Invalid, "is too large: the manifest is 3.61 MB"),
        (&limited, config_map(&namespace, "a", json!({})), ErrorKind::Forbidden, &forbidden),
    ] {
        let refused = write(cluster, &manifest, APPLY).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{refused}");
        assert!(refused.message.contains(text), "{refused}");
    }
    let somebody =
        ConnectOptions { impersonate_user: Some("jane".to_owned()), ..options(control, User::ENGINE) };
    let somebody = connect(&somebody).await.unwrap();
    let refused = write(&somebody, &config_map(&namespace, "a", json!({})), APPLY).await.unwrap_err();
    assert!(refused.message.contains("User \"jane\" cannot patch"), "{refused}");
}
