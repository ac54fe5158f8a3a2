//! Access to the socket, the files and the state directory.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, Running};
use crate::disk_syncs::run_traced;
use crate::manifests::{CONFIG, STUCK};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn start_stuck(bench: &Bench) -> Running {
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    sync
}

/// Checks the system calls: no other user may connect at any time, regardless of the umask.
#[test]
fn the_control_socket_is_private_before_it_is_bound() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let trace = run_traced(
        &bench,
        &["sync", "config.yaml", "--app", "a", "--sim"],
        &["-e", "trace=bind,mkdir,mkdirat,chmod,fchmodat,rename"],
    );
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
fn the_requester_is_read_from_the_system() {
    let bench = Bench::new();
    let sync = start_stuck(&bench);
    let id = bench.newest();
    let mut socket = UnixStream::connect(bench.state().join("control.sock")).unwrap();
    writeln!(
        socket,
        r#"{{"do":"request-operation-action","operation":"{id}","by":"the boss","action":{{"action":"pause","reason":""}}}}"#
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
fn a_state_directory_writable_for_others_is_made_private() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]);
    fs::create_dir(bench.state()).unwrap();
    fs::set_permissions(bench.state(), Permissions::from_mode(0o777)).unwrap();
    let ran = sync().expect_code(0);
    assert!(ran.err.contains("other users had access") && mode(&bench.state()) == 0o700, "{}", ran.err);
    fs::set_permissions(bench.state(), Permissions::from_mode(0o770)).unwrap();
    let ran = bench.run(&["ops", "list"]).expect_code(0);
    assert!(ran.err.contains("other users had access") && mode(&bench.state()) == 0o700, "{}", ran.err);
    fs::set_permissions(bench.state(), Permissions::from_mode(0o755)).unwrap();
    let ran = sync().expect_code(0);
    assert!(ran.err.contains("other users had access") && mode(&bench.state()) == 0o700, "{}", ran.err);
    assert!(!sync().expect_code(0).err.contains("other users"));
}

/// The content of the directory is checked too, because other users may have had access before.
#[test]
fn files_of_a_state_directory_writable_for_others_are_made_private() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0).err;
    sync();
    let open = |name: &str, mode| {
        fs::set_permissions(bench.state().join(name), Permissions::from_mode(mode)).unwrap();
    };
    let cases: [(&[&str], u32, u32); 3] = [
        (&["witness", "log/db"], 0o666, 0o600),
        (&["log", "blobs"], 0o777, 0o700),
        (&["cluster/journal-0"], 0o660, 0o600),
    ];
    for (names, mode_before, mode_after) in cases {
        names.iter().for_each(|name| open(name, mode_before));
        let told = sync();
        let text = format!("(mode {mode_before:o})");
        assert!(told.contains("warning: other users could write to ") && told.contains(&text), "{told}");
        assert_eq!(told.matches("other users could").count(), 1, "{told}");
        assert_eq!(told.contains(" and 1 more in the state directory"), names.len() == 2, "{told}");
        for name in names {
            assert_eq!(mode(&bench.state().join(name)), mode_after, "{name}");
        }
        assert!(!sync().contains("other users"), "{names:?}");
    }
    // The link leads elsewhere, and we must not change the permissions there.
    let elsewhere = bench.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o666)).unwrap();
    symlink(&elsewhere, bench.state().join("link")).unwrap();
    assert!(!sync().contains("other users"));
    assert_eq!(mode(&elsewhere), 0o666);
}

/// Earlier versions left the files readable by everyone, and manifests and plans can contain secrets.
#[test]
fn only_the_owner_has_access_to_anything_in_a_state_directory() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0).err;
    sync();
    let all = entries(&bench.state());
    let exposed = || entries(&bench.state()).into_iter().find(|path| mode(path) & 0o077 != 0);
    assert_eq!(exposed(), None, "of the files that the command has created");
    for path in all.iter().filter(|path| path.exists()) {
        let open = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(open)).unwrap();
    }
    let told = sync();
    assert_eq!(told.matches("other users").count(), 1, "{told}");
    assert!(told.contains("other users had access to the state directory"), "{told}");
    for path in entries(&bench.state()) {
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    // A state directory that is already closed can contain such files too.
    let witness = bench.state().join("witness");
    fs::set_permissions(&witness, Permissions::from_mode(0o644)).unwrap();
    assert!(!sync().contains("other users"));
    assert_eq!(mode(&witness), 0o600);
}

/// Returns a folder and all its content.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(entries(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The user's umask doesn't apply to the state directory, but it does apply to files that the user requests.
#[test]
fn an_open_umask_opens_only_examples() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync: &[&str] = &["sync", "config.yaml", "--app", "a", "--sim"];
    let example: &[&str] = &["example", "shop", "shop"];
    for args in [sync, sync, example] {
        let inner = bench.command(args);
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
        assert!(ran.status.success() && !told.contains("other users"), "{told}");
    }
    assert_eq!((mode(&bench.state().join("log")), mode(&bench.state().join("log/db"))), (0o700, 0o600));
    assert_eq!(mode(&bench.path().join("shop")), 0o777);
}

#[test]
fn a_folder_of_another_user_is_not_a_state_directory() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    for (mode_before, file) in
        [(0o1777, None), (0o777, Some("state/notes.txt")), (0o755, Some("state/notes.txt"))]
    {
        fs::create_dir(bench.state()).unwrap();
        file.map(|name| bench.write(name, "of another user"));
        fs::set_permissions(bench.state(), Permissions::from_mode(mode_before)).unwrap();
        let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(4);
        assert!(ran.err.contains("because other users can access it"), "{}", ran.err);
        assert!(ran.err.contains("chmod go-rwx "), "{}", ran.err);
        assert!(!bench.state().join("log").exists() && mode(&bench.state()) == mode_before & 0o777);
        fs::remove_dir_all(bench.state()).unwrap();
    }
}

/// Health rules are programs, so a folder's rules must come from this folder.
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
            refused.err.contains(place) && refused.err.contains("points outside the specified folder"),
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
    // A mounted ConfigMap has this layout.
    symlink("parts/part.yaml", bench.path().join("app/again.yaml")).unwrap();
    fs::remove_file(bench.path().join("app/own.yaml")).unwrap();
    symlink("../elsewhere/notes.txt", bench.path().join("app/notes.txt")).unwrap();
    let plan = |name: &str| bench.run(&["plan", name, "--app", "a", "--offline"]);
    let usual = plan("app");
    assert!(!usual.err.contains("points outside"), "{}", usual.err);
    for (link, to) in [("link.yaml", "../elsewhere/secret.yaml"), ("link", "../elsewhere")] {
        let path = bench.path().join("app").join(link);
        symlink(to, &path).unwrap();
        let ran = plan("app").expect_code(2);
        assert!(
            ran.err.contains(&format!("app/{link}: the link points outside the specified folder")),
            "{}",
            ran.err
        );
        fs::remove_file(path).unwrap();
    }
    // A link that the user specifies explicitly is intended.
    symlink("elsewhere/secret.yaml", bench.path().join("named.yaml")).unwrap();
    assert!(!plan("named.yaml").err.contains("points outside"));
}
