//! Projects as resources of the cluster: what their applications may not do, they do not.

use serde_json::{Value, json};

use crate::applications::{create, is_done, path, site, until};

pub async fn an_application_keeps_to_its_project() {
    let site = site().await;
    let namespace = site.namespace.clone();
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
    let made = site.observer().post(&projects, &project).await.unwrap();
    assert_eq!(made["spec"], project["spec"], "nothing of it is lost");
    create(&site).await;
    let app = format!("{}/shop", path(&site));
    site.observer().patch(&app, &json!({"spec": {"project": "shop"}})).await.unwrap();
    let mut serving =
        site.start(&["serve", "--app-namespace", &namespace, "--project-namespace", &namespace]);
    serving.await_line("serving");
    let says = |words: &'static str| {
        move |app: &Value| {
            app["status"]["conditions"].to_string().contains(words)
                && app["status"]["sync"]["status"] == "Unknown"
        }
    };
    until(&site, says("resource batch:Job is not permitted in project shop")).await;
    assert_eq!(site.creations("Job", "migrate").await, 0);
    let project = format!("{projects}/shop");
    site.observer().patch(&project, &kinds(&[("", "ConfigMap"), ("batch", "Job")])).await.unwrap();
    until(&site, is_done).await;
    assert_eq!(site.creations("Job", "migrate").await, 1);
    site.observer().patch(&project, &json!({"spec": {"sourceRepos": ["!*"]}})).await.unwrap();
    until(&site, says("is not permitted in project 'shop': sourceRepos denies")).await;
    site.observer().delete(&project, &json!({})).await.unwrap();
    until(&site, says("referencing project shop which does not exist")).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
