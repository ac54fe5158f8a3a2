//! Socket addresses. Socket paths are limited to about a hundred characters, but state directories may have
//! longer paths.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Maximum length in bytes of a socket path on all platforms.
const PATH_BYTES_MAX: usize = 100;

/// Socket address. Its path is valid until this value is dropped.
pub struct SocketAddress {
    path: PathBuf,
    _folder: Option<File>,
}

impl SocketAddress {
    /// Returns the address of a socket file. A path that is too long is replaced by one through the folder's
    /// file descriptor.
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
