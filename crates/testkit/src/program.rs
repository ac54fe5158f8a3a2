//! Executable scripts and programs for tests.
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script that can be run right away.
///
/// A separate process writes it, because a file that is open for writing can't be executed (`ETXTBSY`): if
/// the test itself opened the script, a process that another test is starting would keep it open for a while.
pub fn write_script(path: &Path, text: &str) {
    let mut writer =
        Command::new("sh").args(["-c", "cat > \"$0\""]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies a program so that it can be run right away. As in [`write_script`], a separate process makes the
/// copy.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}
