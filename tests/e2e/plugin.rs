//! Completion scripts, man pages, and use of the command as a kubectl plugin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::bench::Bench;

/// Runs a program if it is installed.
fn run_program(name: &str, args: &[&str], bench: &Bench) -> Option<Output> {
    let ran = Command::new(name).args(args).current_dir(bench.path()).env("HOME", bench.path()).output();
    match ran {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{name} is missing, so its result is not tested");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the command under another name.
fn run_as(bench: &Bench, name: &str, args: &[&str]) -> (i32, String, String) {
    let path = bench.path().join(name);
    if !path.exists() {
        symlink(env!("CARGO_BIN_EXE_tidegate"), &path).unwrap();
    }
    let mut command = Command::new(&path);
    command.args(args).current_dir(bench.path()).env("HOME", bench.path());
    let output = command.env("TIDEGATE_STATE_DIR", bench.state()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

#[test]
fn every_shell_has_a_completion_script_and_bash_completes_with_it() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bench.run(&["completions", shell]).expect_code(0).out;
        assert!(script.contains("tidegate") && script.contains("explain"), "{shell}");
        bench.write(&format!("script.{shell}"), script);
    }
    for shell in ["zsh", "fish"] {
        if let Some(output) = run_program(shell, &["-n", &format!("script.{shell}")], &bench) {
            assert!(output.status.success(), "{shell}: {}", output_text(&output));
        }
    }
    // Returns the completions that bash would offer.
    let ask = |text: &str| {
        let ask = format!(
            "source script.bash && COMP_WORDS=({text}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && \
             _tidegate tidegate \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" && echo \"${{COMPREPLY[@]}}\""
        );
        let output = run_program("bash", &["--norc", "-c", &ask], &bench)?;
        assert!(output.status.success(), "{text}: {}", output_text(&output));
        Some(output_text(&output).trim().to_owned())
    };
    for (text, offered) in [
        ("tidegate expl", "explain"),
        ("tidegate ops exp", "export"),
        ("tidegate ops list --resu", "--result"),
        ("tidegate ops list --result succ", "succeeded"),
    ] {
        assert!(ask(text).is_none_or(|found| found == offered), "{text}: {:?}", ask(text));
    }
}

#[test]
fn every_command_has_a_man_page() {
    let bench = Bench::new();
    bench.run(&["man", "pages"]).expect_code(0);
    let pages = bench.path().join("pages");
    for page in
        ["tidegate.1", "tidegate-plan.1", "tidegate-ops.1", "tidegate-ops-export.1", "tidegate-appset-plan.1"]
    {
        assert!(pages.join(page).is_file(), "{page}");
    }
    let names: Vec<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() > 40 && !names.iter().any(|name| name.contains("__complete")), "{names:?}");
    let explain = fs::read_to_string(pages.join("tidegate-explain.1")).unwrap();
    assert!(explain.contains("works for running, interrupted and finished operations"), "{explain}");
    for name in names {
        let path = pages.join(&name);
        let path = path.to_str().unwrap();
        if let Some(output) = run_program("groff", &["-man", "-Tutf8", "-ww", "-z", path], &bench) {
            assert_eq!(output_text(&output), "", "{name}");
        }
        if let Some(output) = run_program("mandoc", &["-T", "lint", "-W", "error", path], &bench) {
            assert!(output.status.success(), "{name}: {}", output_text(&output));
        }
    }
}

#[test]
fn as_a_plugin_it_calls_itself_kubectl_tidegate() {
    let bench = Bench::new();
    let (code, out, _) = run_as(&bench, "kubectl-tidegate", &["ops", "--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage: kubectl tidegate ops"), "{out}");
    assert!(out.contains("\n  kubectl tidegate ops list\n"), "{out}");
    let (_, out, _) = run_as(&bench, "kubectl-tidegate", &["--help"]);
    assert_eq!(out.lines().find(|line| line.trim_start().starts_with("tidegate ")), None);
    let (code, out, err) = run_as(&bench, "kubectl-tidegate", &["sync", ".", "--sim"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("Usage: kubectl tidegate sync"), "{err}");
    // Suggested commands can be copied as printed.
    bench.write("hook.yaml", HOOK);
    let args = ["sync", "hook.yaml", "--app", "a", "--sim", "--timeout", "1s"];
    let (code, _, err) = run_as(&bench, "kubectl-tidegate", &args);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`kubectl tidegate resume ") && !err.contains("`tidegate "), "{err}");
    // Under its own name, the command suggests commands with that name.
    let ran = bench.run(&["ops", "--help"]).expect_code(0);
    assert!(!ran.out.contains("kubectl"), "{}", ran.out);
}

/// A hook that waits for a user action.
const HOOK: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: waits
  annotations:
    argocd.argoproj.io/hook: PreSync
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: a:1}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
";

#[test]
fn kubectl_gets_completions() {
    let bench = Bench::new();
    for (text, expected) in [
        (&["op"][..], "ops\t"),
        (&["ops", "exp"], "export\t"),
        (&["ops", "list", "--result", "fai"], "failed"),
    ] {
        let (code, out, err) = run_as(&bench, "kubectl_complete-tidegate", text);
        assert_eq!((code, err.as_str()), (0, ""), "{text:?}");
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].starts_with(expected) && lines.len() == 2 && lines[1] == ":4", "{text:?}: {out}");
        // The script of `completions kubectl` produces the same result.
        let (_, again, _) = run_as(&bench, "kubectl-tidegate", &[&["__complete"][..], text].concat());
        assert_eq!(again, out);
    }
    let (_, out, _) = run_as(&bench, "kubectl_complete-tidegate", &["plan", ""]);
    assert_eq!(out, ":0\n", "a PATH is a file");
    let script = bench.run(&["completions", "kubectl"]).expect_code(0).out;
    assert!(script.starts_with("#!/bin/sh\n"), "{script}");
    // Simulates a kubectl that knows only this plugin.
    bench.write("kubectl_complete-tidegate.sh", &script);
    bench.write_private("kubectl", "#!/bin/sh\nshift\nexec ./kubectl-tidegate \"$@\"\n");
    let path = format!("{}:{}", bench.path().display(), std::env::var("PATH").unwrap());
    let ask = "chmod +x kubectl && sh kubectl_complete-tidegate.sh ops exp";
    let output =
        Command::new("sh").args(["-c", ask]).current_dir(bench.path()).env("PATH", path).output().unwrap();
    assert!(output_text(&output).starts_with("export\t"), "{}", output_text(&output));
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Checks that a manifest meets the requirements of the plugin index.
fn check_manifest(manifest: &Value) {
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"tidegate".into()));
    let spec = &manifest["spec"];
    for field in ["version", "homepage", "shortDescription", "description"] {
        assert!(spec[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(short.len() <= 50 && !short.ends_with('.'), "{short}");
    let platforms = spec["platforms"].as_array().unwrap();
    assert!(!platforms.is_empty());
    for platform in platforms {
        for field in ["uri", "sha256", "bin"] {
            assert!(platform[field].is_string(), "{field}");
        }
        let labels = &platform["selector"]["matchLabels"];
        assert!(labels["os"].is_string() && labels["arch"].is_string(), "{labels}");
        assert_eq!(platform["bin"], "kubectl-tidegate");
        let files = platform["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file["to"] == "kubectl-tidegate" || file["to"] == "."), "{files:?}");
    }
}

#[test]
fn only_a_release_fills_in_the_plugin_manifest() {
    let template = fs::read_to_string(root().join("deploy/krew/tidegate.yaml")).unwrap();
    let read: Value = serde_saphyr::from_str(&template).unwrap();
    check_manifest(&read);
    for platform in read["spec"]["platforms"].as_array().unwrap() {
        assert!(platform["sha256"].as_str().unwrap().starts_with("${SHA256_"), "the digest is genuine");
    }
    let bench = Bench::new();
    bench.write("tidegate", "a program");
    bench.write("LICENSE", "a licence");
    let script = root().join("scripts/krew-manifest");
    let fill = |version: &str| {
        let args = [version, ".", "https://downloads.example/v", "https://tidegate.example"];
        Command::new("bash").arg(&script).args(args).current_dir(bench.path()).output().unwrap()
    };
    assert!(!fill("v1.2.3").status.success(), "there are no archives");
    assert!(!fill("1.2").status.success());
    let mut digests = Vec::new();
    for platform in ["linux-amd64", "linux-arm64"] {
        let name = format!("tidegate-v1.2.3-{platform}.tar.gz");
        assert!(
            run_program("tar", &["-czf", &name, "tidegate", "LICENSE"], &bench).unwrap().status.success()
        );
        let digest = output_text(&run_program("sha256sum", &[&name], &bench).unwrap());
        digests.push(digest.split(' ').next().unwrap().to_owned());
    }
    let output = fill("v1.2.3");
    assert!(output.status.success(), "{}", output_text(&output));
    let filled: Value = serde_saphyr::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
    check_manifest(&filled);
    assert_eq!(filled["spec"]["version"], "v1.2.3");
    let platforms = filled["spec"]["platforms"].as_array().unwrap();
    let found: Vec<&str> = platforms.iter().map(|platform| platform["sha256"].as_str().unwrap()).collect();
    assert_eq!(found, digests);
    assert_eq!(platforms[0]["uri"], "https://downloads.example/v/tidegate-v1.2.3-linux-amd64.tar.gz");
}
