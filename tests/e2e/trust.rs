//! Who may ask, write and be read.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, Running};
use crate::manifests::{CONFIG, STUCK};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn stuck(bench: &Bench) -> Running {
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.await_line("waiting for Deployment default/server");
    sync
}

/// As the system calls tell: at no moment may anybody else connect, whatever the mode that files are made with.
#[test]
fn the_control_socket_is_private_before_it_is_bound() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let trace = bench.path().join("trace");
    let inner = bench.command(&["sync", "config.yaml", "--app", "a", "--sim"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=bind,mkdir,mkdirat,chmod,fchmodat,rename", "-o"]).arg(&trace);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(bench.path());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let traced = command.output().expect("strace is installed");
    assert!(traced.status.success(), "{traced:?}");
    let trace = fs::read_to_string(trace).unwrap();
    let at = |part: &str| {
        trace.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in:\n{trace}"))
    };
    let folder = at("control.new\", 0700)");
    let (bound, closed) = (at("bind("), at("control.new/s\", 0600)"));
    let placed =
        trace.lines().position(|line| line.contains("rename") && line.contains("control.sock")).unwrap();
    assert!(folder < bound && bound < closed && closed < placed, "{trace}");
}

#[test]
fn who_wishes_is_asked_of_the_system() {
    let bench = Bench::new();
    let sync = stuck(&bench);
    let id = bench.newest();
    let mut socket = UnixStream::connect(bench.state().join("control.sock")).unwrap();
    writeln!(
        socket,
        r#"{{"do":"wish","operation":"{id}","by":"the boss","wish":{{"wish":"pause","reason":""}}}}"#
    )
    .unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    assert_eq!(answer, "\"done\"\n");
    sync.finish().expect_code(3);
    let explained = bench.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("paused by tester"), "{}", explained.out);
    assert!(!explained.out.contains("the boss"), "{}", explained.out);
}

#[test]
fn a_state_directory_that_others_may_write_to_is_closed_to_them() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]);
    fs::create_dir(bench.state()).unwrap();
    fs::set_permissions(bench.state(), Permissions::from_mode(0o777)).unwrap();
    let ran = sync().expect_code(0);
    assert!(ran.err.contains("others could write") && mode(&bench.state()) == 0o755, "{}", ran.err);
    fs::set_permissions(bench.state(), Permissions::from_mode(0o770)).unwrap();
    let ran = bench.run(&["ops", "list"]).expect_code(0);
    assert!(ran.err.contains("others could write") && mode(&bench.state()) == 0o750, "{}", ran.err);
    assert!(!sync().expect_code(0).err.contains("others"));
}

/// What is in it as well: others may have been let in before.
#[test]
fn files_of_a_state_directory_that_others_may_write_to_are_closed_to_them() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0).err;
    sync();
    let open = |name: &str, mode| {
        fs::set_permissions(bench.state().join(name), Permissions::from_mode(mode)).unwrap();
    };
    let cases: [(&[&str], u32, u32); 3] = [
        (&["witness", "log/db"], 0o666, 0o644),
        (&["log", "blobs"], 0o777, 0o755),
        (&["cluster/journal-0"], 0o660, 0o640),
    ];
    for (names, mode_before, mode_after) in cases {
        names.iter().for_each(|name| open(name, mode_before));
        let told = sync();
        let words = format!("(its mode was {mode_before:o})");
        assert!(told.contains("warning: others could write to ") && told.contains(&words), "{told}");
        assert_eq!(told.matches("others could").count(), 1, "{told}");
        assert_eq!(told.contains(" and 1 more in the state directory"), names.len() == 2, "{told}");
        for name in names {
            assert_eq!(mode(&bench.state().join(name)), mode_after, "{name}");
        }
        assert!(!sync().contains("others"), "{names:?}");
    }
    // A link leads elsewhere, where nothing is ours to close.
    let elsewhere = bench.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o666)).unwrap();
    symlink(&elsewhere, bench.state().join("link")).unwrap();
    assert!(!sync().contains("others"));
    assert_eq!(mode(&elsewhere), 0o666);
}

/// Where the system makes files for everybody, they are made so by this program too; that is nobody else's doing.
#[test]
fn what_was_made_for_everybody_is_closed_without_a_word() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let inner = bench.command(&["sync", "config.yaml", "--app", "a", "--sim"]);
    for _ in 0..3 {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).current_dir(bench.path());
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ran = command.output().unwrap();
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success() && !told.contains("others"), "{told}");
    }
    assert_eq!(mode(&bench.state().join("log")), 0o755);
}

#[test]
fn a_folder_of_others_is_no_state_directory() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    for (mode_before, file) in [(0o1777, None), (0o777, Some("state/notes.txt"))] {
        fs::create_dir(bench.state()).unwrap();
        file.map(|name| bench.write(name, "of somebody"));
        fs::set_permissions(bench.state(), Permissions::from_mode(mode_before)).unwrap();
        let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(4);
        assert!(ran.err.contains("others may write to"), "{}", ran.err);
        assert!(!bench.state().join("log").exists() && mode(&bench.state()) == 0o777);
        fs::remove_dir_all(bench.state()).unwrap();
    }
}

/// Health rules are programs: those of a folder come from this folder.
#[test]
fn links_that_leave_the_folder_of_health_rules_are_refused() {
    let bench = Bench::new();
    bench.write("app.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    bench.write("elsewhere/health.lua", "return {status = 'Healthy', message = 'secret'}");
    bench.write("rules/example.com/Gadget/health.lua", "return {status = 'Healthy', message = ''}");
    let plan = ["plan", "app.yaml", "--sim", "--customizations", "rules"];
    std::fs::create_dir_all(bench.path().join("rules/example.com/Copy")).unwrap();
    symlink("../Gadget/health.lua", bench.path().join("rules/example.com/Copy/health.lua")).unwrap();
    bench.run(&plan).expect_code(0);
    for (to, place) in [
        ("../../../elsewhere/health.lua", "rules/example.com/Widget/health.lua"),
        ("../../elsewhere", "rules/example.com/Thing"),
    ] {
        let path = bench.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, &path).unwrap();
        let refused = bench.run(&plan).expect_code(2);
        assert!(
            refused.err.contains(place) && refused.err.contains("leads out of the folder"),
            "{refused:?}"
        );
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn links_that_leave_the_folder_are_refused() {
    let bench = Bench::new();
    bench.write("app/own.yaml", CONFIG);
    bench.write("app/parts/part.yaml", CONFIG.replace("name: config", "name: part"));
    bench.write("elsewhere/secret.yaml", CONFIG.replace("name: config", "name: secret"));
    bench.write("elsewhere/notes.txt", "no manifest");
    // What a mounted ConfigMap looks like.
    symlink("parts/part.yaml", bench.path().join("app/again.yaml")).unwrap();
    fs::remove_file(bench.path().join("app/own.yaml")).unwrap();
    symlink("../elsewhere/notes.txt", bench.path().join("app/notes.txt")).unwrap();
    let plan = |name: &str| bench.run(&["plan", name, "--app", "a", "--offline"]);
    let usual = plan("app");
    assert!(!usual.err.contains("leads out"), "{}", usual.err);
    for (link, to) in [("link.yaml", "../elsewhere/secret.yaml"), ("link", "../elsewhere")] {
        let path = bench.path().join("app").join(link);
        symlink(to, &path).unwrap();
        let ran = plan("app").expect_code(2);
        assert!(ran.err.contains(&format!("app/{link}: the link leads out of the folder")), "{}", ran.err);
        fs::remove_file(path).unwrap();
    }
    // One that is named itself is meant.
    symlink("elsewhere/secret.yaml", bench.path().join("named.yaml")).unwrap();
    assert!(!plan("named.yaml").err.contains("leads out"));
}
