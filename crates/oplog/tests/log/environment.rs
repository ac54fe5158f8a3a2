//! Unusable state directories. Each error names the problem and the next step.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tidegate_oplog::LogError;

use crate::child::{command, command_for_copy, copy_program, output_lines};
use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Event, ReopenableLog, append_to_shop, loaded_stream, operation, waves_passed,
};

const UNPRIVILEGED_USER: u32 = 65_534;

#[test]
fn a_second_opening_names_the_holder() {
    let mut disk = Disk::create();
    let path = disk.path();
    disk.open();
    let error = kit::open_log(&path).unwrap_err();
    let LogError::Locked { path: named, holder } = &error else { panic!("{error}") };
    assert_eq!(*named, path);
    assert_eq!(holder, "pid 41 (tidegate sync shop) since 2026-11-21T09:30:00.250Z");
    assert!(error.to_string().contains("stop that process"));
    // Another process gets the same result.
    let said = output_lines(command("open", &path, &[]));
    assert!(said.iter().any(|line| line.starts_with("refused Locked")), "{said:?}");
    disk.close();
    assert!(kit::open_log(&path).is_ok(), "dropping the log must release the lock");
}

#[test]
fn a_database_opened_by_another_program_is_not_treated_as_damaged() {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
    disk.close();
    let other = kit::open_database(&disk.path());
    let folder = disk.path();
    let opening = std::thread::spawn(move || kit::open_log(&folder));
    // `open_log` retries while the database is locked, so it doesn't matter whether `other` is dropped before
    // or after the call.
    drop(other);
    let log = opening.join().unwrap().unwrap();
    assert_eq!(log.damage(), []);
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=1), 1));
}

#[test]
fn a_path_that_is_no_directory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"a file").unwrap();
    for path in [file.clone(), file.join("below"), file.join("far/below")] {
        let error = kit::open_log(&path).unwrap_err();
        assert!(matches!(error, LogError::NotADirectory { .. }), "{error:?}");
        assert!(error.to_string().contains("choose another"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"a file");
}

#[test]
fn missing_folders_are_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c");
    drop(kit::open_log(&path).unwrap());
    assert!(path.join("log").is_dir() && path.join("blobs").is_dir() && path.join("quarantine").is_dir());
}

/// Permissions don't apply to root. If run as root, the test starts the program as an unprivileged user.
#[test]
fn missing_permission_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let closed = folder.path().join("closed");
    let unreadable = folder.path().join("unreadable");
    fs::create_dir(&closed).unwrap();
    drop(kit::open_log(&unreadable).unwrap());
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = copy_program(folder.path());
    let open = |path: &Path| {
        let mut open = command_for_copy(&program, "open", path, &[]);
        open.current_dir("/");
        if root {
            open.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
        }
        output_lines(open)
    };
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(&unreadable, Permissions::from_mode(0o000)).unwrap();
    for path in [closed.clone(), closed.join("state"), unreadable.clone(), unreadable.join("state")] {
        let said = open(&path);
        assert!(
            said.iter().any(|line| line.starts_with("refused PermissionDenied")),
            "{}: {said:?}",
            path.display()
        );
    }
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&unreadable, Permissions::from_mode(0o755)).unwrap();
}

/// A blob that is unreadable because of its permissions isn't damaged.
#[test]
fn nothing_is_quarantined_because_of_a_missing_permission() {
    let mut disk = Disk::create();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![Append { blobs: vec![blob], ..append_to_shop(1, 1, waves_passed(1..=1)) }]).unwrap();
    disk.close();
    let program = copy_program(disk.folder.path());
    fs::set_permissions(disk.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut open = command_for_copy(&program, "open", &disk.path(), &[]);
    open.current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let owned =
            Command::new("chown").args(["-R", &UNPRIVILEGED_USER.to_string()]).arg(disk.path()).status();
        assert!(owned.unwrap().success());
        open.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
    }
    fs::set_permissions(disk.path().join("blobs"), Permissions::from_mode(0o000)).unwrap();
    let said = output_lines(open);
    fs::set_permissions(disk.path().join("blobs"), Permissions::from_mode(0o755)).unwrap();
    assert!(said.iter().any(|line| line.starts_with("refused PermissionDenied")), "{said:?}");
    let log = disk.open();
    assert_eq!(
        (log.damage(), log.load_as::<Event>(operation(1)).unwrap()),
        (vec![], loaded_stream(waves_passed(1..=1), 1))
    );
}

/// A process must stop writing to a directory that was moved away or taken over by another process.
#[test]
fn a_moved_removed_or_replaced_directory_is_detected_at_the_next_append() {
    type Removal = fn(&Path, &Path);
    let cases: [(&str, Removal); 6] = [
        ("moved", |path, aside| fs::rename(path, aside).unwrap()),
        ("removed", |path, _| fs::remove_dir_all(path).unwrap()),
        ("replaced", |path, aside| {
            fs::rename(path, aside).unwrap();
            let log = kit::open_log(path).unwrap();
            let digest = log.put_blob(b"of the successor").unwrap();
            log.append_all(vec![Append { blobs: vec![digest], ..append_to_shop(7, 1, waves_passed(1..=1)) }])
                .unwrap();
        }),
        ("without its database", |path, aside| fs::rename(path.join("log"), aside).unwrap()),
        ("without its witness", |path, _| fs::remove_file(path.join("witness")).unwrap()),
        ("below another folder", |path, aside| {
            fs::rename(path, aside).unwrap();
            fs::write(path, b"a file in its place").unwrap();
        }),
    ];
    for (what, lose) in cases {
        let mut disk = Disk::create();
        let (path, aside) = (disk.path(), disk.folder.path().join("aside"));
        disk.open().append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
        disk.open().check_location().unwrap();
        lose(&path, &aside);
        let log = disk.open();
        let refusals = [
            log.append_all(vec![append_to_shop(1, 2, waves_passed(2..=2))]).unwrap_err(),
            log.compact_to_history(0).unwrap_err(),
        ];
        for error in refusals {
            assert!(matches!(&error, LogError::Moved { path: named } if *named == path), "{what}: {error}");
        }
        // `check_location` skips the witness. Only writes check it.
        let seen = matches!(log.check_location(), Err(LogError::Moved { .. }));
        assert_eq!(seen, what != "without its witness", "{what}");
        if what == "replaced" {
            assert!(matches!(log.put_blob(b"of the old one").unwrap_err(), LogError::Moved { .. }));
            disk.close();
            let successor = kit::open_log(&path).unwrap();
            assert_eq!(
                (successor.damage(), successor.all_events(operation(7)).unwrap()),
                (vec![], waves_passed(1..=1))
            );
        }
    }
}
