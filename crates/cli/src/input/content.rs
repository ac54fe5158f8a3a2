//! Files read up to a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Content of a file.
pub enum FileContent {
    Whole(Vec<u8>),
    TooLarge(u64),
}

/// Reads a file, unless it exceeds the limit. Checks the size first, so that a larger file isn't read at all.
pub fn read_file(path: &Path, limit: u64) -> io::Result<FileContent> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > limit { Ok(FileContent::TooLarge(size)) } else { read_limited(file, limit) }
}

pub fn read_limited(reader: impl Read, limit: u64) -> io::Result<FileContent> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(if size > limit { FileContent::TooLarge(size) } else { FileContent::Whole(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_over_the_limit_is_discarded() {
        assert!(matches!(read_limited(&b"12345"[..], 5), Ok(FileContent::Whole(bytes)) if bytes.len() == 5));
        assert!(matches!(read_limited(&b"123456"[..], 5), Ok(FileContent::TooLarge(6))));
    }
}
