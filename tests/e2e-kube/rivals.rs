//! Two state directories, one application, and no claim that keeps them apart: what one runs is left alone by the other.

use crate::manifests::SLOW;
use crate::site::Site;

pub async fn a_hook_that_another_operation_runs_is_left_alone() {
    let site = Site::new("rivals").await;
    site.write("slow.yaml", SLOW.replace("2s", "1h"));
    site.write("quick.yaml", SLOW.replace("2s", "100ms"));
    let app = format!("{}-app", site.namespace);
    let args = |file: &'static str| ["sync", file, "--app", &app, "-n", &site.namespace, "--no-claim"];
    let mut first = site.start(&args("slow.yaml"));
    first.await_line("waiting for hook Job");
    let id = site.newest();
    let mut second = site.start(&[args("quick.yaml").as_slice(), &["--state-dir", "elsewhere"]].concat());
    let line = second.await_line(&format!("operation {id} runs it"));
    assert!(line.contains("waiting") && line.contains("/slow"), "{line}");
    let explained = site.run(&["explain", &app, "--state-dir", "elsewhere"]).expect_code(0);
    assert!(explained.out.contains(&format!("operation {id} runs it")), "{}", explained.out);
    let hook = site.writes().await.only(|event| event.kind == "Job" && event.name == "slow").summaries();
    assert_eq!(hook.len(), 1, "it was created, and nothing else: {hook:#?}");
    // Its own operation may end it.
    site.run(&["ops", "terminate", &id]).expect_code(0);
    first.finish().expect_code(1);
    second.finish().expect_code(0);
    assert_eq!(site.creations("Job", "slow").await, 2);
}
