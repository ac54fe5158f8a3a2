//! The bytes of a file, up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What a file holds.
pub enum Content {
    Whole(Vec<u8>),
    TooLarge(u64),
}

/// Looks at the size first: a file that is too large is not read at all.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Content> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > limit { Ok(Content::TooLarge(size)) } else { read_limited(file, limit) }
}

pub fn read_limited(reader: impl Read, limit: u64) -> io::Result<Content> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(if size > limit { Content::TooLarge(size) } else { Content::Whole(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_is_not_kept() {
        assert!(matches!(read_limited(&b"12345"[..], 5), Ok(Content::Whole(bytes)) if bytes.len() == 5));
        assert!(matches!(read_limited(&b"123456"[..], 5), Ok(Content::TooLarge(6))));
    }
}
