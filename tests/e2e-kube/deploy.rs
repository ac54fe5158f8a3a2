//! What `deploy/` has, on a real control plane.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::kube::Options;

use crate::site::{Plane, Site};

pub async fn the_manifests_are_taken_and_the_pod_is_admitted() {
    let control = Plane::own(Options::default());
    let site = Site::on(control, "deploy").await;
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let file = |name: &str| deploy.join(name).to_str().unwrap().to_owned();
    site.run(&["sync", &file("chart/crds/crds.yaml"), "--app", &site.app("crds"), "--wait", "healthy"])
        .expect_code(0);
    // Where Applications are, and what is said of repositories and clusters.
    let argocd = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    site.observer().post("/api/v1/namespaces", &argocd).await.unwrap();
    let app = site.app("tidegate");
    site.run(&["sync", &file("install.yaml"), "--app", &app, "-n", "tidegate"]).expect_code(0);
    // Its controller makes the pod, which PodSecurity must let in; there are no nodes to run it.
    let is_made = |pod: &Value| pod["spec"]["containers"][0]["name"] == "tidegate";
    let pod = "/api/v1/namespaces/tidegate/pods/tidegate-0";
    let made = site.observer().until(pod, |pod| pod.is_some_and(is_made)).await.unwrap();
    assert_eq!(made["spec"]["securityContext"]["runAsNonRoot"], json!(true));
    the_process_may_read_what_it_is_for(&site).await;
}

const ACCOUNT: &str = "system:serviceaccount:tidegate:tidegate";
/// Rights are told to the server a moment after they are written.
const LOOKS: usize = 1000;

async fn may(site: &Site, (namespace, resource, verb): (&str, &str, &str)) -> bool {
    is_allowed(site, json!({"namespace": namespace, "resource": resource, "verb": verb})).await
}

async fn is_allowed(site: &Site, attributes: Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    site.observer().post(path, &review).await.unwrap()["status"]["allowed"] == true
}

/// The Secrets and ConfigMaps beside the Applications, and no others.
async fn the_process_may_read_what_it_is_for(site: &Site) {
    // Generators of ApplicationSets ask for single ones.
    let verbs = ["list", "watch", "get"];
    for wanted in ["secrets", "configmaps"].into_iter().flat_map(|kind| verbs.map(|verb| (kind, verb))) {
        let mut looks = 0;
        while !may(site, ("argocd", wanted.0, wanted.1)).await {
            looks += 1;
            assert!(looks < LOOKS, "{wanted:?}");
        }
    }
    for forbidden in [
        ("argocd", "secrets", "create"),
        ("argocd", "secrets", "patch"),
        ("argocd", "configmaps", "delete"),
        ("tidegate", "secrets", "list"),
        ("kube-system", "secrets", "list"),
        ("", "secrets", "list"),
        ("", "configmaps", "watch"),
    ] {
        assert!(!may(site, forbidden).await, "{forbidden:?}");
    }
    for (resource, subresource, verb) in [
        ("applications", "", "create"),
        ("applications", "", "update"),
        ("applications", "", "delete"),
        ("applicationsets", "", "watch"),
        ("applicationsets", "", "update"),
        ("applicationsets", "", "delete"),
        ("applicationsets", "status", "update"),
        ("applicationsets", "finalizers", "update"),
    ] {
        let attributes = json!({"group": "argoproj.io", "namespace": "argocd", "resource": resource, "subresource": subresource, "verb": verb});
        assert!(is_allowed(site, attributes).await, "{verb} {resource}/{subresource}");
    }
    // With the rights of the manifests and the arguments of the pod, nothing is refused.
    let mut serving =
        site.start(&["serve", "--app-namespace=argocd", "--secrets-namespace=argocd", "--as", ACCOUNT]);
    serving.await_line("serving 0 applications");
    serving.signal("TERM");
    let ended = serving.finish().expect_code(0);
    assert!(!ended.err.contains("cannot be listed") && !ended.err.contains("forbidden"), "{}", ended.err);
}
