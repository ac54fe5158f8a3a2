//! Operations that impersonate the service account of their project. The audit log shows the user of each
//! write.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications::{
    bench_with_crds, commit_version, commit_waiting_version, complete_job, create, is_done, is_running, path,
    wait_until,
};
use crate::bench::Running;
use crate::kube_bench::KubeBench;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn account(bench: &KubeBench, name: &str) -> String {
    format!("system:serviceaccount:{}:{name}", bench.namespace)
}

/// Creates a service account with the rights to deploy the repository.
async fn create_deployer(bench: &KubeBench) {
    let (observer, namespace) = (bench.observer(), &bench.namespace);
    for name in ["deployer", "other"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        observer.post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await.unwrap();
    }
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer"},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
    });
    observer.post(&format!("{RBAC}/namespaces/{namespace}/roles"), &role).await.unwrap();
    observer.post(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding).await.unwrap();
}

fn accounts(bench: &KubeBench, name: &str) -> Value {
    json!([{"server": "https://kubernetes.default.svc", "namespace": bench.namespace, "defaultServiceAccount": name}])
}

fn serve(bench: &KubeBench, more: &[&str]) -> Running {
    let namespace = &bench.namespace;
    let mut args = vec!["serve", "--app-namespace", namespace, "--project-namespace", namespace];
    args.extend(["--secrets-namespace", namespace]);
    args.extend(more);
    let mut service = bench.start(&args);
    service.wait_for_line("managing");
    service
}

/// Returns the users of the writes to the application's objects, or of the dry runs if `tries` is set. Checks
/// that the service itself did everything else.
async fn writers(bench: &KubeBench, tries: bool) -> Vec<Option<String>> {
    let audit_events = bench.audit().await.by_user(User::ENGINE).0;
    let is_of_app = |kind: &str, name: &str| {
        // The dry run of a hook uses another name.
        (kind == "ConfigMap" && name == "settings") || (kind == "Job" && name.starts_with("migrate"))
    };
    let is_review = |group: &str| group == "authorization.k8s.io";
    let (written, rest): (Vec<_>, Vec<_>) = audit_events
        .into_iter()
        .filter(|event| !is_review(&event.group))
        .partition(|event| event.is_write() && is_of_app(&event.kind, &event.name));
    let acted: Vec<_> = rest.iter().filter(|event| event.impersonated.is_some()).collect();
    assert!(acted.is_empty(), "{acted:#?}");
    assert!(rest.iter().any(|event| event.kind == "Lease" && event.is_write()), "it has a separate claim");
    let counts = written.into_iter().filter(|event| tries || !event.dry_run);
    counts.map(|event| event.impersonated).collect()
}

pub async fn operations_write_as_the_service_account_of_their_project() {
    let mut bench = bench_with_crds().await;
    create_deployer(&bench).await;
    let observer = bench.observer();
    let core = format!("/api/v1/namespaces/{}", bench.namespace);
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
        "data": {"application.sync.impersonation.enabled": "true"},
    });
    observer.post(&format!("{core}/configmaps"), &settings).await.unwrap();
    let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects", bench.namespace);
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "destinationServiceAccounts": accounts(&bench, "deployer"),
        },
    });
    observer.post(&projects, &project).await.unwrap();
    let project = format!("{projects}/default");
    let names = |name: &str| json!({"spec": {"destinationServiceAccounts": accounts(&bench, name)}});
    let (to_other, to_none) = (names("other"), json!({"spec": {"destinationServiceAccounts": []}}));
    bench.reset_audit();
    create(&bench).await;
    let service = serve(&bench, &[]);
    wait_until(&bench, is_done).await;
    let as_deployer = Some(account(&bench, "deployer"));
    let seen = writers(&bench, true).await;
    assert!(!seen.is_empty() && seen.iter().all(|one| *one == as_deployer), "{seen:?}");

    // A killed operation continues with its original account, regardless of later changes.
    bench.reset_audit();
    commit_waiting_version(&bench, "2");
    let app = format!("{}/shop", path(&bench));
    let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    observer.patch(&app, &refresh).await.unwrap();
    // An operation that has not started uses the current account.
    wait_until(&bench, is_running).await;
    service.signal("KILL");
    service.finish();
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "1", "it was killed before it finished");
    observer.patch(&project, &to_other).await.unwrap();
    let service = serve(&bench, &["--impersonate=never"]);
    complete_job(&bench, "migrate").await;
    wait_until(&bench, is_done).await;
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    // A service without impersonation uses its own rights for the dry runs of a comparison.
    let seen = writers(&bench, false).await;
    assert!(!seen.is_empty() && seen.iter().all(|one| *one == as_deployer), "{seen:?}");
    service.signal("TERM");
    service.finish().expect_code(0);

    // For an account without rights, the error contains the account and the missing rights.
    bench.reset_audit();
    commit_version(&bench, "3");
    let service = serve(&bench, &["--impersonate"]);
    let lacking = format!("of {}: ", account(&bench, "other"));
    let app = wait_until(&bench, |app| app["status"]["operationState"].to_string().contains(&lacking)).await;
    let operation_state = app["status"]["operationState"].to_string();
    assert!(operation_state.contains("configmaps"), "{operation_state}");
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    let as_other = Some(account(&bench, "other"));
    let seen = bench.audit().await.by_user(User::ENGINE).successful_writes().0;
    let seen: Vec<_> = seen.iter().filter(|event| event.impersonated == as_other).collect();
    assert!(seen.is_empty(), "{seen:#?}");

    // The project no longer specifies an account.
    observer.patch(&project, &to_none).await.unwrap();
    let says = |app: &Value| {
        let conditions = app["status"]["conditions"].to_string();
        conditions.contains("no matching service account found for destination server")
            && conditions.contains("project 'default'")
    };
    wait_until(&bench, says).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}
