//! Tests for calls of programs: environment and limits.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidegate_source::ToolLimits;

use crate::fixture::{RenderFixture, chart};

/// Creates a test setup in which a script replaces Helm.
fn bench(script: &str) -> RenderFixture {
    let mut bench = RenderFixture::new();
    bench.script(script);
    bench.write("repo/charts/web/Chart.yaml", "{name: web}");
    bench.commit("repo");
    bench
}

#[test]
fn a_program_has_a_private_environment() {
    let bench = bench("export -p; echo \"$@\"; pwd; for file in *; do echo \"file $file\"; done; umask");
    let text = bench
        .rendered_text(&chart(json!({"parameters": [{"name": "a", "value": "$(id) `id` ;x"}]})))
        .unwrap();
    // Cargo has set these variables for the test, and the script must not inherit them.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("PATH").is_some());
    assert!(!text.contains("CARGO") && !text.contains(&std::env::var("PATH").unwrap()), "{text}");
    let working = bench.folder.path().join("working").display().to_string();
    for name in ["HOME", "TMPDIR", "HELM_CACHE_HOME", "HELM_PLUGINS", "XDG_CONFIG_HOME", "KUBECONFIG", "PATH"]
    {
        let line = text.lines().find(|line| line.starts_with(&format!("export {name}=")));
        assert!(line.is_some_and(|line| line.contains(&working)), "{name}: {text}");
    }
    assert!(text.contains("HTTPS_PROXY='http://127.0.0.1:9'"), "the network is not available: {text}");
    assert!(text.contains("--set=a=$(id) `id` ;x"), "no shell: {text}");
    assert!(text.contains("file charts"), "{text}");
    assert!(
        !Path::new(&working).read_dir().unwrap().any(|entry| entry.is_ok()),
        "the working folder is deleted"
    );
}

#[test]
fn a_program_over_its_limits_is_stopped() {
    let limits = ToolLimits::default();
    for (script, limits, expected) in [
        (
            "while :; do :; done",
            ToolLimits { time: Duration::from_millis(300), ..limits },
            "did not finish within 0.3 s",
        ),
        (
            "exec >&- 2>&-; while :; do :; done",
            ToolLimits { time: Duration::from_millis(300), ..limits },
            "did not finish within 0.3 s",
        ),
        (
            "a=aaaaaaaaaaaaaaaa; while :; do a=$a$a; done",
            ToolLimits { memory: 64 << 20, ..limits },
            "more than 64 MiB of memory",
        ),
        (
            "while :; do echo aaaaaaaaaaaaaaaa; done",
            ToolLimits { output: 1 << 20, ..limits },
            "printed more than 1 MiB",
        ),
        (
            "while :; do echo aaaaaaaaaaaaaaaa >&2; done",
            ToolLimits { time: Duration::from_millis(300), ..limits },
            "did not finish within 0.3 s",
        ),
        ("echo no >&2; exit 3", limits, "helm template failed for charts/web: no"),
        ("exit 3", limits, "exit status: 3"),
        ("kill -9 $$", limits, "signal: 9"),
    ] {
        let mut bench = bench(script);
        bench.making.tools.limits = limits;
        let error = bench.error(&chart(json!({})));
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[test]
fn program_errors_are_one_short_line() {
    let bench =
        bench("i=0; while [ $i -lt 500 ]; do printf 'line \\033[31m%s\\n' $i >&2; i=$((i+1)); done; exit 1");
    let error = bench.error(&chart(json!({})));
    assert!(error.chars().count() < 400 && !error.contains(char::is_control), "{error:?}");
}

#[test]
fn a_missing_program_is_named() {
    let mut bench = bench("");
    let gone = bench.folder.path().join("gone/helm");
    bench.making.tools.helm = Some(gone.clone());
    let error = bench.error(&chart(json!({})));
    for part in ["charts/web is a Helm chart", &gone.display().to_string(), "install Helm", "--helm"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // A program installed later is found.
    bench.script("echo 'kind: A'");
    assert_eq!(bench.rendered_text(&chart(json!({}))).unwrap(), "kind: A\n");
}

#[test]
fn shutdown_does_not_wait_for_programs() {
    let bench = bench("echo begun >&2; while :; do :; done");
    let tools = bench.making.tools.clone();
    let stopping = std::thread::spawn(move || {
        // A stop must end the call, whether or not the program has started.
        tools.stop();
    });
    let error = bench.error(&chart(json!({})));
    assert!(error.contains("interrupted"), "{error}");
    stopping.join().unwrap();
}

#[test]
fn unsafe_file_names_are_rejected() {
    let bench = bench("echo made");
    bench.write("repo/charts/web/templates/a\nb.yaml", "x");
    bench.commit("repo");
    let error = bench.error(&chart(json!({})));
    assert!(error.contains("a\\nb.yaml") && error.contains("rename"), "{error}");
}

/// When the stop returns, all processes must have exited and all working folders must be gone.
#[test]
fn stopped_programs_leave_nothing_behind() {
    let bench = bench("echo begun > ../begun; while :; do :; done");
    let (tools, working) = (bench.making.tools.clone(), bench.folder.path().join("working"));
    let has_begun = || {
        let found = working.read_dir().into_iter().flatten().flatten();
        found.into_iter().any(|entry| entry.path().join("begun").exists())
    };
    std::thread::scope(|scope| {
        let rendering = scope.spawn(|| bench.rendered_text(&chart(json!({"values": "a: hunter2"}))));
        while !has_begun() {
            std::thread::yield_now();
        }
        tools.stop();
        assert_eq!(working.read_dir().unwrap().count(), 0);
        assert!(rendering.join().unwrap().unwrap_err().to_string().contains("interrupted"));
    });
}
