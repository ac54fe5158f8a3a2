//! Two state directories with one application, without a claim to separate them. Neither may change the
//! other's running objects.

use crate::kube_bench::KubeBench;
use crate::manifests::SLOW;

pub async fn a_running_hook_of_another_operation_is_left_alone() {
    let bench = KubeBench::new("rivals").await;
    bench.write("slow.yaml", SLOW.replace("2s", "1h"));
    bench.write("quick.yaml", SLOW.replace("2s", "100ms"));
    let app = format!("{}-app", bench.namespace);
    let args = |file: &'static str| ["sync", file, "--app", &app, "-n", &bench.namespace, "--no-claim"];
    let mut first = bench.start(&args("slow.yaml"));
    first.wait_for_line("waiting for hook Job");
    let id = bench.newest();
    let mut second = bench.start(&[args("quick.yaml").as_slice(), &["--state-dir", "elsewhere"]].concat());
    let line = second.wait_for_line(&format!("operation {id} is still running the same hook"));
    assert!(line.contains("waiting") && line.contains("/slow"), "{line}");
    let explained = bench.run(&["explain", &app, "--state-dir", "elsewhere"]).expect_code(0);
    assert!(
        explained.out.contains(&format!("operation {id} is still running the same hook")),
        "{}",
        explained.out
    );
    let hook = bench.writes().await.filter(|event| event.kind == "Job" && event.name == "slow");
    let verbs: Vec<&str> = hook.0.iter().map(|event| event.verb.as_str()).collect();
    // Old servers can't create a Job suspended.
    let expected: &[&str] = if bench.control.minor() < 22 { &["create"] } else { &["create", "patch"] };
    assert_eq!(verbs, expected, "it was only created and started: {:#?}", hook.summaries());
    // The hook's own operation may stop it.
    bench.run(&["ops", "terminate", &id]).expect_code(0);
    first.finish().expect_code(1);
    second.finish().expect_code(0);
    assert_eq!(bench.creations("Job", "slow").await, 2);
}
