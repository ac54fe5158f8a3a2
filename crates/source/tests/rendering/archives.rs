//! Chart archives for tests, including malicious ones.

use std::fmt::Write as _;

use zlib_rs::{Deflate, DeflateFlush};

/// An entry of an archive: path, `tar` type flag, and content.
pub type Entry<'e> = (&'e str, u8, &'e [u8]);

/// Returns a chart archive with these files in its folder.
pub fn chart(files: &[(&str, &str)]) -> Vec<u8> {
    let paths: Vec<String> = files.iter().map(|(path, _)| format!("web/{path}")).collect();
    let entries =
        files.iter().zip(&paths).map(|((_, content), path)| (path.as_str(), b'0', content.as_bytes()));
    gzip(&tar(&entries.collect::<Vec<_>>()))
}

pub fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, kind, content) in entries {
        let mut header = [0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = *kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let (mut deflate, mut packed) = (Deflate::new(6, true, 31), vec![0; content.len() + 1024]);
    deflate.compress(content, &mut packed, DeflateFlush::Finish).unwrap();
    packed.truncate(usize::try_from(deflate.total_out()).unwrap());
    packed
}

pub fn sha256(content: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
