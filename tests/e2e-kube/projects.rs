//! Projects as resources of the cluster, and the restrictions of their applications.

use serde_json::{Value, json};

use crate::applications::{bench_with_crds, create, is_done, path, wait_until};

pub async fn an_application_stays_within_its_project() {
    let bench = bench_with_crds().await;
    let namespace = bench.namespace.clone();
    let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/appprojects");
    let kinds = |kinds: &[(&str, &str)]| {
        let kinds = kinds.iter().map(|(group, kind)| json!({"group": group, "kind": kind}));
        json!({"spec": {"namespaceResourceWhitelist": kinds.collect::<Vec<_>>()}})
    };
    let mut project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": namespace}],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
            "roles": [{"name": "reader", "policies": []}], "colour": "green",
        },
    });
    let whitelist = kinds(&[("", "ConfigMap")])["spec"]["namespaceResourceWhitelist"].clone();
    project["spec"]["namespaceResourceWhitelist"] = whitelist;
    let made = bench.observer().post(&projects, &project).await.unwrap();
    assert_eq!(made["spec"], project["spec"], "no output is lost");
    create(&bench).await;
    let app = format!("{}/shop", path(&bench));
    bench.observer().patch(&app, &json!({"spec": {"project": "shop"}})).await.unwrap();
    let mut service =
        bench.start(&["serve", "--app-namespace", &namespace, "--project-namespace", &namespace]);
    service.wait_for_line("managing");
    let says = |text: &'static str| {
        move |app: &Value| {
            app["status"]["conditions"].to_string().contains(text)
                && app["status"]["sync"]["status"] == "Unknown"
        }
    };
    wait_until(&bench, says("resource batch:Job is not permitted in project shop")).await;
    assert_eq!(bench.creations("Job", "migrate").await, 0);
    let project = format!("{projects}/shop");
    bench.observer().patch(&project, &kinds(&[("", "ConfigMap"), ("batch", "Job")])).await.unwrap();
    wait_until(&bench, is_done).await;
    assert_eq!(bench.creations("Job", "migrate").await, 1);
    bench.observer().patch(&project, &json!({"spec": {"sourceRepos": ["!*"]}})).await.unwrap();
    wait_until(&bench, says("is not permitted in project 'shop': denied by the sourceRepos entry")).await;
    bench.observer().delete(&project, &json!({})).await.unwrap();
    wait_until(&bench, says("referencing project shop which does not exist")).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}
