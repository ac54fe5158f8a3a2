//! Programs that a test writes to have them started.
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script that can be started at once.
///
/// Another process writes it. If the test held it open to write, a process that another test starts in this
/// moment would for a while hold it as well, and a file that is open to write cannot be started (`ETXTBSY`).
pub fn write_script(path: &Path, text: &str) {
    let mut writer =
        Command::new("sh").args(["-c", "cat > \"$0\""]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies a program so that it can be started at once, for the same reason by another process.
pub fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
}
