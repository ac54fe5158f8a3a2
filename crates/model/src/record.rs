use serde::Serialize;
use serde::de::DeserializeOwned;

/// Something the operation log can keep.
///
/// `kind` numbers are part of the format on disk: they are given once and never reused or renumbered.
pub trait LogRecord: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The highest kind this program knows. A record with a higher one was written by a newer program.
    const HIGHEST_KIND: u16;

    /// Which kind of record this is, from 1.
    fn kind(&self) -> u16;
}
