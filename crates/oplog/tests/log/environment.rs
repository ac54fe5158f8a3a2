//! State directories that cannot be used: each is named, with what to do about it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tidegate_oplog::LogError;

use crate::child::{command, command_of, copy_of_program, lines};
use crate::kit::prelude::*;
use crate::kit::{self, Append, Disk, Fact, Kept, append, loaded, operation, passed};

const NOBODY: u32 = 65_534;

#[test]
fn a_second_opening_names_the_holder() {
    let mut disk = Disk::fresh();
    let path = disk.path();
    disk.open();
    let error = kit::open(&path).unwrap_err();
    let LogError::Locked { path: named, holder } = &error else { panic!("{error}") };
    assert_eq!(*named, path);
    assert_eq!(holder, "pid 41 (tidegate sync shop) since 2026-11-21T09:30:00.250Z");
    assert!(error.to_string().contains("stop that process"));
    // So it does from another process.
    let said = lines(command("open", &path, &[]));
    assert!(said.iter().any(|line| line.starts_with("refused Locked")), "{said:?}");
    disk.close();
    assert!(kit::open(&path).is_ok(), "given back");
}

#[test]
fn a_database_that_another_program_has_open_is_not_taken_for_damaged() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
    disk.close();
    let other = kit::raw(&disk.path());
    let folder = disk.path();
    let opening = std::thread::spawn(move || kit::open(&folder));
    // It waits for the lock, as it does for threads of its own process; whichever comes first, all is well.
    drop(other);
    let log = opening.join().unwrap().unwrap();
    assert_eq!(log.damage(), []);
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=1), 1));
}

#[test]
fn what_is_not_a_directory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"a file").unwrap();
    for path in [file.clone(), file.join("below"), file.join("far/below")] {
        let error = kit::open(&path).unwrap_err();
        assert!(matches!(error, LogError::NotADirectory { .. }), "{error:?}");
        assert!(error.to_string().contains("choose another"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"a file");
}

#[test]
fn folders_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/c");
    drop(kit::open(&path).unwrap());
    assert!(path.join("log").is_dir() && path.join("blobs").is_dir() && path.join("quarantine").is_dir());
}

/// Root may do everything, so as root the program is run as nobody.
#[test]
fn missing_permission_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let closed = folder.path().join("closed");
    let unreadable = folder.path().join("unreadable");
    fs::create_dir(&closed).unwrap();
    drop(kit::open(&unreadable).unwrap());
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = copy_of_program(folder.path());
    let open = |path: &Path| {
        let mut open = command_of(&program, "open", path, &[]);
        open.current_dir("/");
        if root {
            open.uid(NOBODY).gid(NOBODY);
        }
        lines(open)
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

/// A blob that may not be read is not a damaged one.
#[test]
fn nothing_is_set_aside_because_of_a_missing_permission() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    let blob = log.put_blob(b"manifests").unwrap();
    log.append_all(vec![Append { blobs: vec![blob], ..append(1, 1, passed(1..=1)) }]).unwrap();
    disk.close();
    let program = copy_of_program(disk.folder.path());
    fs::set_permissions(disk.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut open = command_of(&program, "open", &disk.path(), &[]);
    open.current_dir("/");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let owned = Command::new("chown").args(["-R", &NOBODY.to_string()]).arg(disk.path()).status();
        assert!(owned.unwrap().success());
        open.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(disk.path().join("blobs"), Permissions::from_mode(0o000)).unwrap();
    let said = lines(open);
    fs::set_permissions(disk.path().join("blobs"), Permissions::from_mode(0o755)).unwrap();
    assert!(said.iter().any(|line| line.starts_with("refused PermissionDenied")), "{said:?}");
    let log = disk.open();
    assert_eq!(
        (log.damage(), log.load_as::<Fact>(operation(1)).unwrap()),
        (vec![], loaded(passed(1..=1), 1))
    );
}

/// Whoever writes to a directory that nobody finds any more, or that has become another process's, is stopped.
#[test]
fn a_directory_that_is_moved_removed_or_replaced_is_noticed_at_the_next_append() {
    type Lose = fn(&Path, &Path);
    let cases: [(&str, Lose); 6] = [
        ("moved", |path, aside| fs::rename(path, aside).unwrap()),
        ("removed", |path, _| fs::remove_dir_all(path).unwrap()),
        ("replaced", |path, aside| {
            fs::rename(path, aside).unwrap();
            let log = kit::open(path).unwrap();
            let digest = log.put_blob(b"of the successor").unwrap();
            log.append_all(vec![Append { blobs: vec![digest], ..append(7, 1, passed(1..=1)) }]).unwrap();
        }),
        ("without its database", |path, aside| fs::rename(path.join("log"), aside).unwrap()),
        ("without its witness", |path, _| fs::remove_file(path.join("witness")).unwrap()),
        ("below another folder", |path, aside| {
            fs::rename(path, aside).unwrap();
            fs::write(path, b"a file in its place").unwrap();
        }),
    ];
    for (what, lose) in cases {
        let mut disk = Disk::fresh();
        let (path, aside) = (disk.path(), disk.folder.path().join("aside"));
        disk.open().append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
        disk.open().look().unwrap();
        lose(&path, &aside);
        let log = disk.open();
        let refusals =
            [log.append_all(vec![append(1, 2, passed(2..=2))]).unwrap_err(), log.tidy(0).unwrap_err()];
        for error in refusals {
            assert!(matches!(&error, LogError::Moved { path: named } if *named == path), "{what}: {error}");
        }
        // Who only looks leaves the witness to the writes.
        let seen = matches!(log.look(), Err(LogError::Moved { .. }));
        assert_eq!(seen, what != "without its witness", "{what}");
        if what == "replaced" {
            assert!(matches!(log.put_blob(b"of the old one").unwrap_err(), LogError::Moved { .. }));
            disk.close();
            let successor = kit::open(&path).unwrap();
            assert_eq!((successor.damage(), successor.all(operation(7)).unwrap()), (vec![], passed(1..=1)));
        }
    }
}
