//! The README's example on a real cluster.

use std::fs;

use crate::bench::example;
use crate::kube_bench::KubeBench;

/// Returns a test environment with the shop in its own namespace.
fn shop_bench(prefix: &str) -> KubeBench {
    let bench = KubeBench::without_namespace(prefix);
    for entry in fs::read_dir(example("shop")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let namespace = format!("namespace: {}", bench.namespace);
            let mut text = fs::read_to_string(&path).unwrap().replace("namespace: shop", &namespace);
            if path.ends_with("namespace.yaml") {
                text = text.replace("name: shop", &format!("name: {}", bench.namespace));
            }
            bench.write(&format!("shop/{}", path.file_name().unwrap().to_str().unwrap()), text);
        }
    }
    bench
}

const HOOKS: [&str; 3] = ["backup", "migrate", "smoke-test"];

/// These writes occur in this order, possibly with other writes between them.
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
    let mut bench = shop_bench("shop");
    let app = bench.namespace.clone();
    bench.run(&["sync", "shop", "--app", &app, "--wait", "healthy"]).expect_code(0);
    let writes = bench.writes().await.summaries();
    let places: Vec<_> = ORDER
        .iter()
        .map(|step| {
            let (kind, name) = step.split_once(' ').unwrap_or((step, ""));
            let is = |line: &String| {
                let mut text = line.split(' ');
                text.next() != Some("delete")
                    && text.next() == Some(kind)
                    && text.next().is_some_and(|object| object.ends_with(name))
            };
            writes.iter().position(is).unwrap_or_else(|| panic!("no {step} in {writes:#?}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?} in {writes:#?}");
    for hook in HOOKS {
        assert_eq!(bench.creations("Job", hook).await, 1, "{hook} in {writes:#?}");
    }
    assert!(!writes.iter().any(|line| line.contains("notify-failure")), "{writes:#?}");
    // In a second sync, the hooks run again, and the other objects are unchanged.
    bench.reset_audit();
    let args = ["sync", "shop", "--app", &app, "--sync-option", "ApplyOutOfSyncOnly=true"];
    bench.run(&args).expect_code(0);
    let writes = bench.writes().await.filter(|event| event.kind != "Job").summaries();
    assert_eq!(writes, Vec::<String>::new());
}

pub async fn the_shop_survives_a_kill() {
    let bench = shop_bench("killed-shop");
    let mut sync = bench.start(&["sync", "shop", "--app", &bench.namespace]);
    sync.wait_for_line("waiting for hook Job");
    sync.signal("KILL");
    sync.finish();
    let ran = bench.run(&["explain", &bench.namespace]).expect_code(0);
    assert!(ran.out.contains("backup"), "{}", ran.out);
    bench.run(&["resume", "--all"]).expect_code(0);
    for hook in HOOKS {
        bench.assert_created_once("Job", hook, "killed").await;
    }
}
