//! The path of a socket may have about a hundred characters, a state directory's path far more.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// What fits into a socket address everywhere.
const PATH_MAX: usize = 100;

/// A path for a socket address. It works as long as this value lives.
pub struct Address {
    path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    /// The address of a socket file; for a long path, by way of its opened folder.
    pub fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= PATH_MAX {
            return Ok(Self { path: socket.to_path_buf(), _folder: None });
        }
        let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// The path to bind or to connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
