//! The witness: a note, independent of the database, of how far each stream got.
//!
//! The database keeps facts and head of a stream together, so a database file that loses its end loses both and
//! looks whole. The witness is written after each group is durable and before it is acknowledged; it is not synced, so
//! after power loss it may know less than the database, but never more. What it knows and the database does not is
//! lost, and is reported by stream and number of facts. It also names the streams when the database can no
//! longer be listed.
//!
//! ```text
//! witness     magic 4 | version 1 | 3 zero bytes | note | note | …
//! note        stream 16 | last sequence 8 LE | ended 1 | crc32 4 LE
//! ```
//!
//! A note whose third field is 2 is about no stream: up to its id, what the witness does not name was forgotten on
//! purpose, and must not come back from the ruins of a database.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_model::StreamId;
use uuid::Uuid;

use crate::{LogError, files};

/// The name of the file.
pub(crate) const WITNESS: &str = "witness";

const HEADER: [u8; 8] = *b"TGWT\x01\0\0\0";
const NOTE_BYTES: usize = 29;

/// The file is written anew when it has grown by this much: about 75,000 notes.
const GROWTH_MAX_BYTES: usize = 2 << 20;

/// A million streams and the growth fit into it.
pub(crate) const FILE_MAX_BYTES: usize = 32 << 20;

/// The open witness file.
#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    file: File,
    grown: usize,
}

/// How far a stream got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Sequence number of the last fact it is known to have had.
    pub(crate) last: u64,
    /// Whether its summary said that it is over. It must then not be resumed from fewer facts.
    pub(crate) ended: bool,
}

/// What the witness of an earlier process says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Testimony {
    /// What it saw of each stream last.
    pub(crate) seen: BTreeMap<StreamId, Seen>,
    /// Up to this id, a stream that was not seen was forgotten on purpose.
    pub(crate) forgotten: Option<StreamId>,
    /// There is no file. Nothing was ever written here, or somebody has removed it.
    pub(crate) missing: bool,
    /// The file is there but does not begin like a witness: whether facts were lost cannot be told.
    pub(crate) unreadable: bool,
    /// Notes that are not what was written. A last one that is cut short, or was never filled, is what a crash leaves.
    pub(crate) damaged: usize,
    /// The length of the file, when it is notes to its end.
    whole: Option<usize>,
}

/// Reads what an earlier process noted. Its last note may be torn.
pub(crate) fn read(path: &Path) -> Result<Testimony, LogError> {
    let mut testimony = Testimony::default();
    let content = match files::read(path, FILE_MAX_BYTES) {
        Ok(Some(content)) => content,
        Ok(None) => {
            testimony.missing = true;
            return Ok(testimony);
        }
        Err(LogError::TooLarge { .. }) => {
            testimony.unreadable = true;
            return Ok(testimony);
        }
        Err(error) => return Err(error),
    };
    let Some(notes) = content.strip_prefix(&HEADER) else {
        testimony.unreadable = true;
        return Ok(testimony);
    };
    let mut read = 0_usize;
    for note in notes.chunks(NOTE_BYTES) {
        match parse(note) {
            Some(Note::Seen(stream, seen)) => {
                testimony.seen.insert(stream, seen);
                read = read.saturating_add(NOTE_BYTES);
            }
            Some(Note::Forgotten(up_to)) => {
                testimony.forgotten = testimony.forgotten.max(Some(up_to));
                read = read.saturating_add(NOTE_BYTES);
            }
            None if note.len() < NOTE_BYTES || note.iter().all(|byte| *byte == 0) => {}
            None => testimony.damaged = testimony.damaged.saturating_add(1),
        }
    }
    testimony.whole = (read == notes.len()).then_some(content.len());
    Ok(testimony)
}

impl Witness {
    /// Goes on with the file that gave `testimony` if that says what is so, and else begins a new one.
    pub(crate) fn resume(
        path: PathBuf,
        testimony: &Testimony,
        seen: BTreeMap<StreamId, Seen>,
    ) -> Result<Self, LogError> {
        let needed = seen.len().saturating_mul(NOTE_BYTES);
        match testimony.whole {
            Some(length) if testimony.seen == seen => {
                let file = open_to_append(&path)?;
                let witness = Self { path, file, grown: length.saturating_sub(needed) };
                if witness.is_full() {
                    Self::begin(witness.path, testimony.forgotten, seen.into_iter())
                } else {
                    Ok(witness)
                }
            }
            _ => Self::begin(path, testimony.forgotten, seen.into_iter()),
        }
    }

    /// Begins a new file that knows `seen`, in place of the old one.
    pub(crate) fn begin(
        path: PathBuf,
        forgotten: Option<StreamId>,
        seen: impl Iterator<Item = (StreamId, Seen)>,
    ) -> Result<Self, LogError> {
        let mut content = HEADER.to_vec();
        if let Some(up_to) = forgotten {
            content.extend_from_slice(&bytes(up_to, 0, FORGOTTEN));
        }
        for (stream, seen) in seen {
            content.extend_from_slice(&note(stream, seen));
        }
        files::write_durably(&path, &content)?;
        let file = open_to_append(&path)?;
        Ok(Self { path, file, grown: 0 })
    }

    /// Notes how far streams got.
    pub(crate) fn add(&mut self, seen: impl Iterator<Item = (StreamId, Seen)>) -> Result<(), LogError> {
        let notes: Vec<u8> = seen.flat_map(|(stream, seen)| note(stream, seen)).collect();
        self.file.write_all(&notes).map_err(|error| LogError::io(&self.path, "write", error))?;
        self.grown = self.grown.saturating_add(notes.len());
        Ok(())
    }

    /// Whether the file is where the next process looks for it.
    pub(crate) fn is_in_place(&self) -> Result<bool, LogError> {
        files::is_in_place(&self.file, &self.path)
    }

    /// Whether it is time to begin a new file.
    pub(crate) fn is_full(&self) -> bool {
        self.grown > GROWTH_MAX_BYTES
    }
}

fn open_to_append(path: &Path) -> Result<File, LogError> {
    OpenOptions::new().append(true).open(path).map_err(|error| LogError::io(path, "write", error))
}

fn note(stream: StreamId, seen: Seen) -> [u8; NOTE_BYTES] {
    bytes(stream, seen.last, u8::from(seen.ended))
}

fn bytes(stream: StreamId, last: u64, what: u8) -> [u8; NOTE_BYTES] {
    let (id, last) = (stream.0.into_bytes(), last.to_le_bytes());
    let checksum = checksum(&id, &last, what).to_le_bytes();
    let mut bytes = id.into_iter().chain(last).chain([what]).chain(checksum);
    std::array::from_fn(|_| bytes.next().unwrap_or_default())
}

/// The third field of a note that is about no stream.
const FORGOTTEN: u8 = 2;

/// A note that is whole.
enum Note {
    Seen(StreamId, Seen),
    Forgotten(StreamId),
}

fn parse(note: &[u8]) -> Option<Note> {
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
        ended => Note::Seen(stream, Seen { last: u64::from_le_bytes(*last), ended: ended != 0 }),
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

    fn stream(number: u128) -> StreamId {
        StreamId(Uuid::from_u128(number))
    }

    #[test]
    fn remembers_the_last_of_each_and_stops_at_a_torn_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("witness");
        assert_eq!(read(&path).unwrap(), Testimony { missing: true, ..Testimony::default() });
        let (five, six, over) =
            (Seen { last: 5, ended: false }, Seen { last: 6, ended: false }, Seen { last: 1, ended: true });
        let mut witness =
            Witness::begin(path.clone(), Some(stream(9)), [(stream(1), five)].into_iter()).unwrap();
        witness.add([(stream(1), six), (stream(2), over)].into_iter()).unwrap();
        let whole = BTreeMap::from([(stream(1), six), (stream(2), over)]);
        assert_eq!(read(&path).unwrap().seen, whole);
        assert_eq!(read(&path).unwrap().forgotten, Some(stream(9)));

        let testimony = read(&path).unwrap();
        drop(Witness::resume(path.clone(), &testimony, whole.clone()).unwrap());
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len(), 8 + 4 * NOTE_BYTES, "the same file goes on");
        for cut in 1..NOTE_BYTES {
            std::fs::write(&path, &content[..content.len() - cut]).unwrap();
            assert_eq!(read(&path).unwrap().seen, BTreeMap::from([(stream(1), six)]));
        }
        let testimony = read(&path).unwrap();
        drop(Witness::resume(path.clone(), &testimony, testimony.seen.clone()).unwrap());
        assert_eq!(
            std::fs::read(&path).unwrap().len(),
            8 + 2 * NOTE_BYTES,
            "nothing is written behind a torn note"
        );
        let mut garbled = content.clone();
        garbled[8 + NOTE_BYTES + 20] ^= 1;
        std::fs::write(&path, &garbled).unwrap();
        let testimony = read(&path).unwrap();
        assert_eq!(
            (testimony.damaged, testimony.seen),
            (1, whole),
            "what stands behind a damaged note counts"
        );
        std::fs::write(&path, b"something else").unwrap();
        assert!(read(&path).unwrap().unreadable);
    }
}
