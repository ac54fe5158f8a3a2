//! Operations that write as the service account that their project names, by the word of the audit log.

use serde_json::{Value, json};
use tidegate_testkit::kube::User;

use crate::applications::{create, deploys, deploys_when_told, ends, is_at_work, is_done, path, site, until};
use crate::bench::Running;
use crate::site::Site;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn account(site: &Site, name: &str) -> String {
    format!("system:serviceaccount:{}:{name}", site.namespace)
}

/// A service account that may deploy what the repository holds.
async fn deployer(site: &Site) {
    let (observer, namespace) = (site.observer(), &site.namespace);
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

fn accounts(site: &Site, name: &str) -> Value {
    json!([{"server": "https://kubernetes.default.svc", "namespace": site.namespace, "defaultServiceAccount": name}])
}

fn serve(site: &Site, more: &[&str]) -> Running {
    let namespace = &site.namespace;
    let mut args = vec!["serve", "--app-namespace", namespace, "--project-namespace", namespace];
    args.extend(["--secrets-namespace", namespace]);
    args.extend(more);
    let mut serving = site.start(&args);
    serving.await_line("serving");
    serving
}

/// As whom the objects of the application were written, or tried, and that everything else was done by the service itself.
async fn writers(site: &Site, tries: bool) -> Vec<Option<String>> {
    let asked = site.audit().await.of(User::ENGINE).0;
    let is_of_app = |kind: &str, name: &str| {
        // A hook that is tried gets another name for that.
        (kind == "ConfigMap" && name == "settings") || (kind == "Job" && name.starts_with("migrate"))
    };
    let is_review = |group: &str| group == "authorization.k8s.io";
    let (written, rest): (Vec<_>, Vec<_>) = asked
        .into_iter()
        .filter(|event| !is_review(&event.group))
        .partition(|event| event.is_write() && is_of_app(&event.kind, &event.name));
    let acted: Vec<_> = rest.iter().filter(|event| event.impersonated.is_some()).collect();
    assert!(acted.is_empty(), "{acted:#?}");
    assert!(rest.iter().any(|event| event.kind == "Lease" && event.is_write()), "its claim is its own");
    let counts = written.into_iter().filter(|event| tries || !event.dry_run);
    counts.map(|event| event.impersonated).collect()
}

pub async fn operations_write_as_the_service_account_of_their_project() {
    let mut site = site().await;
    deployer(&site).await;
    let observer = site.observer();
    let core = format!("/api/v1/namespaces/{}", site.namespace);
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
        "data": {"application.sync.impersonation.enabled": "true"},
    });
    observer.post(&format!("{core}/configmaps"), &settings).await.unwrap();
    let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/appprojects", site.namespace);
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "destinationServiceAccounts": accounts(&site, "deployer"),
        },
    });
    observer.post(&projects, &project).await.unwrap();
    let project = format!("{projects}/default");
    let names = |name: &str| json!({"spec": {"destinationServiceAccounts": accounts(&site, name)}});
    let (to_other, to_none) = (names("other"), json!({"spec": {"destinationServiceAccounts": []}}));
    site.look_from_now();
    create(&site).await;
    let serving = serve(&site, &[]);
    until(&site, is_done).await;
    let as_deployer = Some(account(&site, "deployer"));
    let seen = writers(&site, true).await;
    assert!(!seen.is_empty() && seen.iter().all(|one| *one == as_deployer), "{seen:?}");

    // Killed within an operation, which goes on as the account that it began with, whatever is said by then.
    site.look_from_now();
    deploys_when_told(&site, "2");
    let app = format!("{}/shop", path(&site));
    let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    observer.patch(&app, &refresh).await.unwrap();
    // One that has not begun acts as whoever is said then.
    until(&site, is_at_work).await;
    serving.signal("KILL");
    serving.finish();
    let settings = site.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "1", "it was killed before it was done");
    observer.patch(&project, &to_other).await.unwrap();
    let serving = serve(&site, &["--impersonate=never"]);
    ends(&site, "migrate").await;
    until(&site, is_done).await;
    let settings = site.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    // A comparison of the service that acts as nobody tries with its own rights.
    let seen = writers(&site, false).await;
    assert!(!seen.is_empty() && seen.iter().all(|one| *one == as_deployer), "{seen:?}");
    serving.signal("TERM");
    serving.finish().expect_code(0);

    // An account that may do nothing: it is said which rights are missing, and whose.
    site.look_from_now();
    deploys(&site, "3");
    let serving = serve(&site, &["--impersonate"]);
    let lacking = format!("of {}: ", account(&site, "other"));
    let app = until(&site, |app| app["status"]["operationState"].to_string().contains(&lacking)).await;
    let told = app["status"]["operationState"].to_string();
    assert!(told.contains("configmaps"), "{told}");
    let settings = site.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    let as_other = Some(account(&site, "other"));
    let seen = site.audit().await.of(User::ENGINE).writes().0;
    let seen: Vec<_> = seen.iter().filter(|event| event.impersonated == as_other).collect();
    assert!(seen.is_empty(), "{seen:#?}");

    // No account at all.
    observer.patch(&project, &to_none).await.unwrap();
    let says = |app: &Value| {
        let conditions = app["status"]["conditions"].to_string();
        conditions.contains("no matching service account found for destination server")
            && conditions.contains("project 'default'")
    };
    until(&site, says).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
