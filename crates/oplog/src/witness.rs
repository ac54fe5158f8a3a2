//! The witness: a record of each stream's progress, independent of the database.
//!
//! The database stores the events and the head of a stream together. A database file that loses its end loses
//! both, and still looks intact. The witness is written once a group is durable, before the group is
//! acknowledged. It isn't synced, so after a power failure it may know less than the database, but never
//! more. Events in the witness but not in the database are lost, and are reported by stream and number. If
//! the database can't be listed, the witness also provides the IDs of the streams.
//!
//! ```text
//! witness     magic 4 | version 1 | 3 zero bytes | note | note | …
//! note        stream 16 | last sequence 8 LE | ended 1 | crc32 4 LE
//! ```
//!
//! A note with 2 in the third field covers all streams up to its ID without a note of their own. They were
//! removed on purpose, and must not be salvaged from a broken database.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_model::StreamId;
use uuid::Uuid;

use crate::{LogError, files};

/// Name of the witness file.
pub(crate) const WITNESS_FILE: &str = "witness";

const HEADER: [u8; 8] = *b"TGWT\x01\0\0\0";
const NOTE_BYTES: usize = 29;

/// Maximum growth of the file in bytes before it is rewritten: about 75,000 notes.
const GROWTH_MAX_BYTES: usize = 2 << 20;

/// Maximum size of the file in bytes: enough for a million streams and the growth.
pub(crate) const FILE_MAX_BYTES: usize = 32 << 20;

/// Witness file open for writing.
#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    file: File,
    growth: usize,
}

/// Progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Sequence number of the last known event.
    pub(crate) last: u64,
    /// True if the summary marked the stream as finished. The stream must then not be resumed from fewer
    /// events.
    pub(crate) has_ended: bool,
}

/// Content of the witness file from an earlier process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WitnessContent {
    /// Last recorded progress of each stream.
    pub(crate) progress: BTreeMap<StreamId, Progress>,
    /// Highest ID of a deliberately removed stream. Streams up to this ID without a note aren't lost.
    pub(crate) forgotten: Option<StreamId>,
    /// True if the file doesn't exist: nothing was ever written, or the file was removed.
    pub(crate) is_missing: bool,
    /// True if the file exists but doesn't have a valid header, so lost events can't be detected.
    pub(crate) is_unreadable: bool,
    /// Number of damaged notes. A truncated or empty note at the end is normal after a crash and doesn't
    /// count.
    pub(crate) damaged_notes: usize,
    /// Length of the file if it consists only of complete notes.
    whole_length: Option<usize>,
}

/// Reads the notes of an earlier process. The last note may be incomplete.
pub(crate) fn read_witness(path: &Path) -> Result<WitnessContent, LogError> {
    let mut testimony = WitnessContent::default();
    let content = match files::read_limited(path, FILE_MAX_BYTES) {
        Ok(Some(content)) => content,
        Ok(None) => {
            testimony.is_missing = true;
            return Ok(testimony);
        }
        Err(LogError::TooLarge { .. }) => {
            testimony.is_unreadable = true;
            return Ok(testimony);
        }
        Err(error) => return Err(error),
    };
    let Some(notes) = content.strip_prefix(&HEADER) else {
        testimony.is_unreadable = true;
        return Ok(testimony);
    };
    let mut read = 0_usize;
    for note in notes.chunks(NOTE_BYTES) {
        match parse_note(note) {
            Some(Note::Progress(stream, seen)) => {
                testimony.progress.insert(stream, seen);
                read = read.saturating_add(NOTE_BYTES);
            }
            Some(Note::Forgotten(up_to)) => {
                testimony.forgotten = testimony.forgotten.max(Some(up_to));
                read = read.saturating_add(NOTE_BYTES);
            }
            None if note.len() < NOTE_BYTES || note.iter().all(|byte| *byte == 0) => {}
            None => testimony.damaged_notes = testimony.damaged_notes.saturating_add(1),
        }
    }
    testimony.whole_length = (read == notes.len()).then_some(content.len());
    Ok(testimony)
}

impl Witness {
    /// Continues the existing file if its content, `testimony`, is complete and matches `seen`. Otherwise
    /// begins a new file.
    pub(crate) fn resume(
        path: PathBuf,
        testimony: &WitnessContent,
        seen: BTreeMap<StreamId, Progress>,
    ) -> Result<Self, LogError> {
        let needed = seen.len().saturating_mul(NOTE_BYTES);
        match testimony.whole_length {
            Some(length) if testimony.progress == seen => {
                let file = open_to_append(&path)?;
                let witness = Self { path, file, growth: length.saturating_sub(needed) };
                if witness.is_full() {
                    Self::begin(witness.path, testimony.forgotten, seen.into_iter())
                } else {
                    Ok(witness)
                }
            }
            _ => Self::begin(path, testimony.forgotten, seen.into_iter()),
        }
    }

    /// Replaces the file with a new file containing `seen`.
    pub(crate) fn begin(
        path: PathBuf,
        forgotten: Option<StreamId>,
        seen: impl Iterator<Item = (StreamId, Progress)>,
    ) -> Result<Self, LogError> {
        let mut content = HEADER.to_vec();
        if let Some(up_to) = forgotten {
            content.extend_from_slice(&encode_fields(up_to, 0, FORGOTTEN));
        }
        for (stream, seen) in seen {
            content.extend_from_slice(&encode_note(stream, seen));
        }
        files::write_durably(&path, &content)?;
        let file = open_to_append(&path)?;
        Ok(Self { path, file, growth: 0 })
    }

    /// Appends notes about the progress of streams.
    pub(crate) fn add(&mut self, seen: impl Iterator<Item = (StreamId, Progress)>) -> Result<(), LogError> {
        let notes: Vec<u8> = seen.flat_map(|(stream, seen)| encode_note(stream, seen)).collect();
        self.file.write_all(&notes).map_err(|error| LogError::from_io(&self.path, "write", error))?;
        self.growth = self.growth.saturating_add(notes.len());
        Ok(())
    }

    /// Returns true if the file is still where the next process looks for it.
    pub(crate) fn is_in_place(&self) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &self.path)
    }

    /// Returns true if the file must be rewritten.
    pub(crate) fn is_full(&self) -> bool {
        self.growth > GROWTH_MAX_BYTES
    }
}

fn open_to_append(path: &Path) -> Result<File, LogError> {
    OpenOptions::new().append(true).open(path).map_err(|error| LogError::from_io(path, "write", error))
}

fn encode_note(stream: StreamId, seen: Progress) -> [u8; NOTE_BYTES] {
    encode_fields(stream, seen.last, u8::from(seen.has_ended))
}

fn encode_fields(stream: StreamId, last: u64, what: u8) -> [u8; NOTE_BYTES] {
    let (id, last) = (stream.0.into_bytes(), last.to_le_bytes());
    let checksum = checksum(&id, &last, what).to_le_bytes();
    let mut bytes = id.into_iter().chain(last).chain([what]).chain(checksum);
    std::array::from_fn(|_| bytes.next().unwrap_or_default())
}

/// Third field of a note that isn't about a single stream.
const FORGOTTEN: u8 = 2;

/// A complete note.
enum Note {
    Progress(StreamId, Progress),
    Forgotten(StreamId),
}

fn parse_note(note: &[u8]) -> Option<Note> {
    let (id, rest) = note.split_first_chunk::<16>()?;
    let (last, rest) = rest.split_first_chunk::<8>()?;
    let (&[what], rest) = rest.split_first_chunk::<1>()?;
    let (stored, _) = rest.split_first_chunk::<4>()?;
    if checksum(id, last, what) != u32::from_le_bytes(*stored) {
        return None;
    }
    let stream = StreamId(Uuid::from_bytes(*id));
    Some(match what {
        FORGOTTEN => Note::Forgotten(stream),
        ended => Note::Progress(stream, Progress { last: u64::from_le_bytes(*last), has_ended: ended != 0 }),
    })
}

fn checksum(id: &[u8; 16], last: &[u8; 8], ended: u8) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(id);
    hasher.update(last);
    hasher.update(&[ended]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_id(number: u128) -> StreamId {
        StreamId(Uuid::from_u128(number))
    }

    #[test]
    fn the_last_note_of_each_stream_counts_and_a_torn_note_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        assert_eq!(
            read_witness(&path).unwrap(),
            WitnessContent { is_missing: true, ..WitnessContent::default() }
        );
        let (five, six, over) = (
            Progress { last: 5, has_ended: false },
            Progress { last: 6, has_ended: false },
            Progress { last: 1, has_ended: true },
        );
        let mut witness =
            Witness::begin(path.clone(), Some(stream_id(9)), [(stream_id(1), five)].into_iter()).unwrap();
        witness.add([(stream_id(1), six), (stream_id(2), over)].into_iter()).unwrap();
        let whole = BTreeMap::from([(stream_id(1), six), (stream_id(2), over)]);
        assert_eq!(read_witness(&path).unwrap().progress, whole);
        assert_eq!(read_witness(&path).unwrap().forgotten, Some(stream_id(9)));

        let testimony = read_witness(&path).unwrap();
        drop(Witness::resume(path.clone(), &testimony, whole.clone()).unwrap());
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len(), 8 + 4 * NOTE_BYTES, "the same file continues");
        for cut in 1..NOTE_BYTES {
            std::fs::write(&path, &content[..content.len() - cut]).unwrap();
            assert_eq!(read_witness(&path).unwrap().progress, BTreeMap::from([(stream_id(1), six)]));
        }
        let testimony = read_witness(&path).unwrap();
        drop(Witness::resume(path.clone(), &testimony, testimony.progress.clone()).unwrap());
        assert_eq!(
            std::fs::read(&path).unwrap().len(),
            8 + 2 * NOTE_BYTES,
            "nothing may be written after a truncated note"
        );
        let mut garbled = content.clone();
        garbled[8 + NOTE_BYTES + 20] ^= 1;
        std::fs::write(&path, &garbled).unwrap();
        let testimony = read_witness(&path).unwrap();
        assert_eq!(
            (testimony.damaged_notes, testimony.progress),
            (1, whole),
            "notes after a damaged note must be read"
        );
        std::fs::write(&path, b"something else").unwrap();
        assert!(read_witness(&path).unwrap().is_unreadable);
    }
}
