//! What `deploy/` has, on a real control plane.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_testkit::kube::{ControlPlane, Options};

use crate::site::Site;

pub async fn the_manifests_are_taken_and_the_pod_is_admitted() {
    let control: &ControlPlane = Box::leak(Box::new(ControlPlane::start(Options::default()).unwrap()));
    let site = Site::on(control, "deploy").await;
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let file = |name: &str| deploy.join(name).to_str().unwrap().to_owned();
    site.run(&["sync", &file("chart/crds/crds.yaml"), "--app", &site.app("crds"), "--wait", "healthy"])
        .expect_code(0);
    let app = site.app("tidegate");
    site.run(&["sync", &file("install.yaml"), "--app", &app, "-n", "tidegate"]).expect_code(0);
    // Its controller makes the pod, which PodSecurity must let in; there are no nodes to run it.
    let is_made = |pod: &Value| pod["spec"]["containers"][0]["name"] == "tidegate";
    let pod = "/api/v1/namespaces/tidegate/pods/tidegate-0";
    let made = site.observer().until(pod, |pod| pod.is_some_and(is_made)).await.unwrap();
    assert_eq!(made["spec"]["securityContext"]["runAsNonRoot"], json!(true));
}
