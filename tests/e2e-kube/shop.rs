//! The example of the README on a real cluster.

use std::fs;

use crate::bench::example;
use crate::site::Site;

/// The shop in a namespace of the test's own.
fn shop(prefix: &str) -> Site {
    let site = Site::without_namespace(prefix);
    for entry in fs::read_dir(example("shop")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let namespace = format!("namespace: {}", site.namespace);
            let mut text = fs::read_to_string(&path).unwrap().replace("namespace: shop", &namespace);
            if path.ends_with("namespace.yaml") {
                text = text.replace("name: shop", &format!("name: {}", site.namespace));
            }
            site.write(&format!("shop/{}", path.file_name().unwrap().to_str().unwrap()), text);
        }
    }
    site
}

const HOOKS: [&str; 3] = ["backup", "migrate", "smoke-test"];

/// In this order, whatever else happens in between.
const ORDER: [&str; 9] = [
    "Namespace",
    "Job backup",
    "ConfigMap",
    "StatefulSet database",
    "Job migrate",
    "Deployment backend",
    "Deployment frontend",
    "Ingress",
    "Job smoke-test",
];

pub async fn the_shop_is_deployed_in_order() {
    let mut site = shop("shop");
    let app = site.namespace.clone();
    site.run(&["sync", "shop", "--app", &app, "--wait", "healthy"]).expect_code(0);
    let writes = site.writes().await.summaries();
    let places: Vec<_> = ORDER
        .iter()
        .map(|step| {
            let (kind, name) = step.split_once(' ').unwrap_or((step, ""));
            let is = |line: &String| {
                let mut words = line.split(' ');
                words.next() != Some("delete")
                    && words.next() == Some(kind)
                    && words.next().is_some_and(|object| object.ends_with(name))
            };
            writes.iter().position(is).unwrap_or_else(|| panic!("no {step} in {writes:#?}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?} in {writes:#?}");
    for hook in HOOKS {
        assert_eq!(site.creations("Job", hook).await, 1, "{hook} in {writes:#?}");
    }
    assert!(!writes.iter().any(|line| line.contains("notify-failure")), "{writes:#?}");
    // Once more: hooks run again, and the rest stays as it is.
    site.look_from_now();
    let args = ["sync", "shop", "--app", &app, "--sync-option", "ApplyOutOfSyncOnly=true"];
    site.run(&args).expect_code(0);
    let writes = site.writes().await.only(|event| event.kind != "Job").summaries();
    assert_eq!(writes, Vec::<String>::new());
}

pub async fn the_shop_survives_a_kill() {
    let site = shop("killed-shop");
    let mut sync = site.start(&["sync", "shop", "--app", &site.namespace]);
    sync.await_line("waiting for hook Job");
    sync.signal("KILL");
    sync.finish();
    let ran = site.run(&["explain", &site.namespace]).expect_code(0);
    assert!(ran.out.contains("backup"), "{}", ran.out);
    site.run(&["resume", "--all"]).expect_code(0);
    for hook in HOOKS {
        site.assert_created_once("Job", hook, "killed").await;
    }
}
