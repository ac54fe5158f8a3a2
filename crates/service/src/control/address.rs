//! Socket addresses. A socket path is limited to about a hundred characters, which is shorter than some state
//! directory paths.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Maximum length of a socket path that works on all platforms, in bytes.
const PATH_BYTES_MAX: usize = 100;

/// Path used as a socket address. Valid while this value exists.
pub struct SocketAddress {
    path: PathBuf,
    _folder: Option<File>,
}

impl SocketAddress {
    /// Returns the address of a socket file. Replaces a path that is too long with a path through the opened
    /// folder.
    pub fn for_socket(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: socket.to_path_buf(), _folder: None });
        }
        let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Returns the path to bind or connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
