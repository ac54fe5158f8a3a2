//! What a chart's archive holds, unpacked in memory and within limits.

use std::collections::BTreeMap;

use zlib_rs::{Inflate, InflateFlush, Status};

use crate::SourceError;
use crate::files::Files;
use crate::remote::Problem;
use crate::tree::join;

/// Most bytes of an archive, as it is sent.
pub(super) const PACKED_MAX: u64 = 32 << 20;
/// Most bytes of all files of a chart.
const UNPACKED_MAX: usize = 128 << 20;
/// Most files of a chart.
const FILES_MAX: usize = 10_000;
/// A header of `tar`, and what sizes are rounded up to.
const BLOCK: usize = 512;
/// So much is unpacked at once.
const PIECE: usize = 64 << 10;
/// The header and the window of `gzip`, as `zlib` says it.
const GZIP: u8 = 16 + 15;

/// The files of a chart, under their paths in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    /// For people: which chart, and where from.
    pub name: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// The files of a packed chart (`.tgz`), by their paths in the chart.
    pub fn unpack(name: String, packed: &[u8]) -> Result<Self, Problem> {
        let unpacked = inflate(packed, UNPACKED_MAX)?;
        let mut files = BTreeMap::new();
        let mut rest = unpacked.as_slice();
        let mut long = None;
        while let Some((header, after)) = rest.split_at_checked(BLOCK) {
            if header.iter().all(|byte| *byte == 0) {
                break;
            }
            let header = Header::read(header)?;
            let size = usize::try_from(header.size).map_err(|_| damaged())?;
            let (content, after) = after.split_at_checked(size).ok_or_else(damaged)?;
            let padding = size.next_multiple_of(BLOCK).saturating_sub(size);
            rest = after.get(padding..).unwrap_or_default();
            match header.kind {
                b'x' => long = extended_path(content).or(long),
                b'L' => long = Some(text(content)),
                b'0' | 0 | b'7' => {
                    let path = long.take().unwrap_or(header.path);
                    files.insert(plain(&path)?, content.to_vec());
                    if files.len() > FILES_MAX {
                        return Err(Problem::new(format!("it has more than {FILES_MAX} files")));
                    }
                }
                b'1' | b'2' => {
                    let path = long.take().unwrap_or(header.path).escape_debug().to_string();
                    return Err(Problem::new(format!("{path} in it is a link, which charts do not have")));
                }
                // Folders, and what is said of all files.
                b'5' | b'g' => long = None,
                _ => return Err(Problem::new("it has something that is neither a file nor a folder")),
            }
        }
        if !files.contains_key(crate::kind::CHART) {
            return Err(Problem::new("it is no chart: it has no Chart.yaml"));
        }
        Ok(Self { name, files })
    }
}

impl Files for Archive {
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        Ok(self.files.get(path).cloned())
    }

    fn below(&self, folder: &str) -> Result<Vec<String>, SourceError> {
        let inside = |path: &&String| folder.is_empty() || path.starts_with(&format!("{folder}/"));
        Ok(self.files.keys().filter(inside).cloned().collect())
    }

    fn place(&self) -> String {
        self.name.clone()
    }
}

fn damaged() -> Problem {
    Problem::new("it is damaged, or no archive of a chart (.tgz)")
}

/// Unpacks `gzip`, up to so many bytes; its checksum has to be right.
fn inflate(packed: &[u8], limit: usize) -> Result<Vec<u8>, Problem> {
    let (mut inflate, mut unpacked, mut piece) = (Inflate::new(true, GZIP), Vec::new(), vec![0; PIECE]);
    loop {
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let at = usize::try_from(read).map_err(|_| damaged())?;
        let left = packed.get(at..).unwrap_or_default();
        let status = inflate.decompress(left, &mut piece, InflateFlush::NoFlush).map_err(|_| damaged())?;
        let new = usize::try_from(inflate.total_out().saturating_sub(written)).map_err(|_| damaged())?;
        unpacked.extend_from_slice(piece.get(..new).unwrap_or_default());
        if unpacked.len() > limit {
            return Err(Problem::new(format!("unpacked it has more than {} MiB", limit >> 20)));
        }
        match status {
            Status::StreamEnd => return Ok(unpacked),
            // Nothing more comes of what there is.
            _ if new == 0 && inflate.total_in() == read => return Err(damaged()),
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
        let number = |from, to| u64::from_str_radix(text(field(from, to)).trim(), 8).map_err(|_| damaged());
        let blanked =
            block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
        if number(148, 156)? != blanked.map(u64::from).sum::<u64>() {
            return Err(damaged());
        }
        let (name, prefix) = (text(field(0, 100)), text(field(345, 500)));
        let has_prefix = field(257, 262) == b"ustar" && field(263, 265) == b"00" && !prefix.is_empty();
        let path = if has_prefix { format!("{prefix}/{name}") } else { name };
        Ok(Self { path, size: number(124, 136)?, kind: block.get(156).copied().unwrap_or_default() })
    }
}

/// A text up to its end, which a zero says.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// The path in an extended header: records such as `12 path=a/b\n`.
fn extended_path(content: &[u8]) -> Option<String> {
    let lines = String::from_utf8_lossy(content).into_owned();
    lines.lines().find_map(|line| Some(line.split_once(' ')?.1.strip_prefix("path=")?.to_owned()))
}

/// The path below the folder of the chart, which every path begins with.
fn plain(path: &str) -> Result<String, Problem> {
    let outside = || Problem::new(format!("{} in it leads out of the chart", path.escape_debug()));
    let path = if path.starts_with('/') { None } else { join("", path) }.ok_or_else(outside)?;
    path.split_once('/').map(|(_, below)| below.to_owned()).ok_or_else(outside)
}
