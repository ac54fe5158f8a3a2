//! Starting a program that may read its room and ask nobody.
//!
//! Landlock restricts files, and a filter of system calls the network: sockets cannot be made at all. Both hold for a thread and
//! for all that it starts, and cannot be undone; so a thread of its own is restricted, and starts the program.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::confines_files;
#[cfg(target_os = "linux")]
pub(crate) use linux::spawn;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::process::{Child, Command};

    use crate::{Room, RunError, not_started};

    /// Whether a confined program reads nothing outside of its room: not on this system.
    pub fn confines_files() -> bool {
        false
    }

    pub(crate) fn spawn(command: &mut Command, _: &Room) -> Result<Child, RunError> {
        command.spawn().map_err(|error| not_started(&error))
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::confines_files;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::spawn;
