//! Sandbox for programs.
//!
//! Landlock restricts file access, and a system call filter prevents the creation of sockets. Both apply
//! permanently to a thread and to all processes that it starts. Therefore, a separate thread restricts itself
//! and starts the program.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::confines_files;
#[cfg(target_os = "linux")]
pub(crate) use linux::spawn;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::process::{Child, Command};

    use crate::{RunError, Sandbox, not_started_error};

    /// Returns true if the system restricts file access to the sandbox. This system never does.
    pub fn confines_files() -> bool {
        false
    }

    pub(crate) fn spawn(command: &mut Command, _: &Sandbox) -> Result<Child, RunError> {
        command.spawn().map_err(|error| not_started(&error))
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::confines_files;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::spawn;
