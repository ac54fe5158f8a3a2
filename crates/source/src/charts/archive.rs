//! Chart archives, unpacked in memory.

use std::collections::BTreeMap;

use zlib_rs::{Inflate, InflateFlush, Status};

use crate::SourceError;
use crate::file_access::FileAccess;
use crate::remote::Problem;
use crate::tree::resolve_path;

/// Maximum size of a packed archive, in bytes.
pub(super) const PACKED_BYTES_MAX: u64 = 32 << 20;
/// Maximum total size of a chart's files, in bytes.
const UNPACKED_BYTES_MAX: usize = 128 << 20;
/// Maximum number of files in a chart.
const FILES_MAX: usize = 10_000;
/// Size of a `tar` block, in bytes.
const BLOCK_BYTES: usize = 512;
/// Number of bytes to decompress at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// zlib window bits that select the `gzip` format.
const GZIP_WINDOW_BITS: u8 = 16 + 15;

/// The files of a chart, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Name and repository of the chart, for messages.
    pub name: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// Unpacks a packaged chart (`.tgz`). Paths in the result are relative to the chart's folder.
    pub fn unpack(name: String, packed: &[u8]) -> Result<Self, Problem> {
        let unpacked = inflate(packed, UNPACKED_BYTES_MAX)?;
        let mut files = BTreeMap::new();
        let mut rest = unpacked.as_slice();
        let mut long = None;
        while let Some((header, after)) = rest.split_at_checked(BLOCK_BYTES) {
            if header.iter().all(|byte| *byte == 0) {
                break;
            }
            let header = Header::read(header)?;
            let size = usize::try_from(header.size).map_err(|_| damaged_archive())?;
            let (content, after) = after.split_at_checked(size).ok_or_else(damaged_archive)?;
            let padding = size.next_multiple_of(BLOCK_BYTES).saturating_sub(size);
            rest = after.get(padding..).unwrap_or_default();
            match header.kind {
                b'x' => long = extended_path(content).or(long),
                b'L' => long = Some(header_text(content)),
                b'0' | 0 | b'7' => {
                    let path = long.take().unwrap_or(header.path);
                    files.insert(strip_chart_folder(&path)?, content.to_vec());
                    if files.len() > FILES_MAX {
                        return Err(Problem::new(format!("the archive has more than {FILES_MAX} files")));
                    }
                }
                b'1' | b'2' => {
                    let path = long.take().unwrap_or(header.path).escape_debug().to_string();
                    return Err(Problem::new(format!(
                        "the archive contains a link, {path}, but links are not allowed in charts"
                    )));
                }
                // Folders and global headers carry nothing we need.
                b'5' | b'g' => long = None,
                _ => {
                    return Err(Problem::new("the archive has an entry that is neither a file nor a folder"));
                }
            }
        }
        if !files.contains_key(crate::source_type::CHART_FILE) {
            return Err(Problem::new("the archive is not a chart: it has no Chart.yaml"));
        }
        Ok(Self { name, files })
    }
}

impl FileAccess for Archive {
    fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        Ok(self.files.get(path).cloned())
    }

    fn list_files(&self, folder: &str) -> Result<Vec<String>, SourceError> {
        let inside = |path: &&String| folder.is_empty() || path.starts_with(&format!("{folder}/"));
        Ok(self.files.keys().filter(inside).cloned().collect())
    }

    fn location_text(&self) -> String {
        self.name.clone()
    }
}

fn damaged_archive() -> Problem {
    Problem::new("the archive is damaged or is not a chart archive (.tgz)")
}

/// Decompresses `gzip` data and verifies its checksum. Fails if the result exceeds `limit` bytes.
fn inflate(packed: &[u8], limit: usize) -> Result<Vec<u8>, Problem> {
    let (mut inflate, mut unpacked, mut piece) =
        (Inflate::new(true, GZIP_WINDOW_BITS), Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let at = usize::try_from(read).map_err(|_| damaged_archive())?;
        let left = packed.get(at..).unwrap_or_default();
        let status =
            inflate.decompress(left, &mut piece, InflateFlush::NoFlush).map_err(|_| damaged_archive())?;
        let new =
            usize::try_from(inflate.total_out().saturating_sub(written)).map_err(|_| damaged_archive())?;
        unpacked.extend_from_slice(piece.get(..new).unwrap_or_default());
        if unpacked.len() > limit {
            return Err(Problem::new(format!(
                "the archive is larger than {} MiB when unpacked",
                limit >> 20
            )));
        }
        match status {
            Status::StreamEnd => return Ok(unpacked),
            // No progress: the data is truncated or invalid.
            _ if new == 0 && inflate.total_in() == read => return Err(damaged_archive()),
            _ => {}
        }
    }
}

struct Header {
    path: String,
    size: u64,
    kind: u8,
}

impl Header {
    fn read(block: &[u8]) -> Result<Self, Problem> {
        let field = |from: usize, to: usize| block.get(from..to).unwrap_or_default();
        let number = |from, to| {
            u64::from_str_radix(header_text(field(from, to)).trim(), 8).map_err(|_| damaged_archive())
        };
        let blanked =
            block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
        if number(148, 156)? != blanked.map(u64::from).sum::<u64>() {
            return Err(damaged_archive());
        }
        let (name, prefix) = (header_text(field(0, 100)), header_text(field(345, 500)));
        let has_prefix = field(257, 262) == b"ustar" && field(263, 265) == b"00" && !prefix.is_empty();
        let path = if has_prefix { format!("{prefix}/{name}") } else { name };
        Ok(Self { path, size: number(124, 136)?, kind: block.get(156).copied().unwrap_or_default() })
    }
}

/// Returns the text up to the first NUL byte.
fn header_text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the path in an extended (pax) header, a list of records such as `12 path=a/b\n`.
fn extended_path(content: &[u8]) -> Option<String> {
    let lines = String::from_utf8_lossy(content).into_owned();
    lines.lines().find_map(|line| Some(line.split_once(' ')?.1.strip_prefix("path=")?.to_owned()))
}

/// Strips the chart's folder from a path. Fails if the path is outside it.
fn strip_chart_folder(path: &str) -> Result<String, Problem> {
    let outside = || {
        let path = path.escape_debug();
        Problem::new(format!("the archive contains the path {path}, which is outside the chart"))
    };
    let path = if path.starts_with('/') { None } else { resolve_path("", path) }.ok_or_else(outside)?;
    path.split_once('/').map(|(_, below)| below.to_owned()).ok_or_else(outside)
}
