//! Bad input. The exit code is 2, standard error contains the file, the line and the cause, and nothing is
//! written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::bench::{Bench, redact};
use crate::manifests::CONFIG;

/// Returns the content of a file, and the expected parts of the error, for each case.
fn cases() -> Vec<(&'static str, String, Vec<&'static str>)> {
    let map = |metadata: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  {metadata}\n");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = level - 1;
        let aliases = vec![format!("*a{before}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    vec![
        ("broken.yaml", "apiVersion: v1\nkind: [\n".to_owned(), vec!["broken.yaml:", "not valid YAML"]),
        (
            "types.yaml",
            "apiVersion: v1\nkind: 7\nmetadata: {name: a}\n".to_owned(),
            vec!["types.yaml:2", "kind"],
        ),
        ("list.yaml", "- a\n- b\n".to_owned(), vec!["list.yaml:1"]),
        ("nokind.yaml", "apiVersion: v1\nmetadata: {name: a}\n".to_owned(), vec!["nokind.yaml:1", "kind"]),
        ("noname.yaml", map("labels: {a: b}"), vec!["noname.yaml:", "ConfigMap", "metadata.name is missing"]),
        ("bomb.yaml", bomb, vec!["bomb.yaml:", "alias"]),
        (
            "deep.yaml",
            format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000)),
            vec!["deep.yaml:1", "deep"],
        ),
        ("twice.yaml", map("name: a\n  name: b"), vec!["twice.yaml:5", "duplicate key"]),
        (
            "wave.yaml",
            map("name: a\n  annotations: {argocd.argoproj.io/sync-wave: \"9223372036854775808\"}"),
            vec!["wave.yaml:", "ConfigMap a", "64 bits"],
        ),
        ("name.yaml", map("name: Not_A_Name"), vec!["name.yaml:4", "Not_A_Name"]),
        ("control.yaml", map(r#"name: "a\u001b[31mb""#), vec!["control.yaml:4", r"\u{1b}"]),
        ("cut.json", r#"{"apiVersion": "v1", "kind": "#.to_owned(), vec!["cut.json:1"]),
        ("empty.yaml", "# nothing\n---\n".to_owned(), vec!["no objects"]),
    ]
}

#[test]
fn each_bad_input_is_reported_with_its_location() {
    for (name, text, parts) in cases() {
        let bench = Bench::new();
        bench.write(name, text);
        for args in [vec!["sync", name, "--app", "a", "--sim"], vec!["plan", name, "--app", "a", "--offline"]]
        {
            let ran = bench.run(&args).expect_code(2);
            for part in &parts {
                assert!(ran.err.contains(part), "{name}: no {part:?} in {}", ran.err);
            }
            assert!(!ran.err.contains('\u{1b}'), "{name}: a raw escape in {:?}", ran.err);
            assert_eq!(ran.out, "", "{name}");
            assert!(!bench.state().exists(), "{name}: something was written");
        }
    }
}

#[test]
fn all_errors_of_all_files_are_reported_together() {
    let bench = Bench::new();
    bench.write("app/good.yaml", CONFIG);
    for (name, text, _) in cases() {
        if !["bomb.yaml", "empty.yaml"].contains(&name) {
            bench.write(&format!("app/{name}"), text);
        }
    }
    let ran = bench.run(&["sync", "app", "--app", "a", "--sim"]).expect_code(2);
    insta::assert_snapshot!(redact(&ran.err, &bench));
}

#[test]
fn a_huge_file_is_refused_before_it_is_read() {
    let bench = Bench::new();
    let path = bench.write("huge.yaml", "");
    // A sparse file doesn't use any disk space.
    File::options().write(true).open(path).unwrap().set_len(100 << 20).unwrap();
    let ran = bench.run(&["sync", "huge.yaml", "--app", "a", "--sim"]).expect_code(2);
    assert!(ran.err.contains("huge.yaml:1") && ran.err.contains("104857600 bytes"), "{}", ran.err);
    assert!(!bench.state().exists());
}

#[test]
fn folders_without_usable_content_are_named() {
    let bench = Bench::new();
    fs::create_dir(bench.path().join("empty")).unwrap();
    bench.write("text/README.md", "# only words");
    fs::create_dir_all(bench.path().join("loop/inner")).unwrap();
    symlink("..", bench.path().join("loop/inner/back")).unwrap();
    bench.write("loop/a.yaml", CONFIG);
    symlink("nowhere", bench.path().join("text/gone.yaml")).unwrap();
    for (path, part) in [
        ("empty", "no manifests in this folder"),
        ("missing.yaml", "no such file or folder"),
        ("text", "cannot read the file"),
        ("loop", "points to one of its parent folders"),
    ] {
        let ran = bench.run(&["sync", path, "--app", "a", "--sim"]).expect_code(2);
        assert!(ran.err.contains(path) && ran.err.contains(part), "{path}: {}", ran.err);
        assert!(!bench.state().exists());
    }
}

#[test]
fn unreadable_files_are_named() {
    let bench = Bench::new();
    let path = bench.write("secret.yaml", CONFIG);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&path).is_ok() {
        return; // The superuser reads everything.
    }
    let ran = bench.run(&["sync", "secret.yaml", "--app", "a", "--sim"]).expect_code(2);
    assert!(ran.err.contains("secret.yaml: cannot read the file"), "{}", ran.err);
}

#[test]
fn strange_file_names_are_read_and_escaped() {
    let bench = Bench::new();
    let folder = bench.path().join("app");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"caf\xe9.yaml")), CONFIG).unwrap();
    bench.run(&["plan", "app", "--offline"]).expect_code(0);
    fs::write(folder.join("bell\u{7}\u{1b}[2J.yaml"), "kind: [").unwrap();
    let ran = bench.run(&["plan", "app", "--offline"]).expect_code(2);
    assert!(!ran.err.contains(['\u{7}', '\u{1b}']), "{:?}", ran.err);
    assert!(ran.err.contains(r"bell\u{7}"), "{}", ran.err);
}
