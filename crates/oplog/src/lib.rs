//! The durable operation log: ordered events that survive a killed process or a power failure.
//!
//! [`OperationLog`] is a store of streams, and [`TypedLog`] reads and writes them as the events of one machine. [`Blobs`] and
//! [`Inventories`] are stored alongside them. The executor uses all of them as one [`Store`]. [`SledLog`] stores everything in a
//! state directory, and [`MemoryLog`] in memory, for tests and the simulator. A shared test suite checks that both give the same
//! guarantees.
//!
//! # Usage
//!
//! 1. Open the log. Damage is found and quarantined at this point rather than later, and is reported by [`OperationLog::damage`].
//!    Everything that can be loaded after opening has been checked record by record.
//! 2. [`OperationLog::load`] every open stream, fold its snapshot and events, and continue.
//! 3. Decide, and [`OperationLog::append`] the events of all streams that have decided meanwhile as one group. Act only after it
//!    returns. A group needs one flush, regardless of its number of events.
//! 4. Store content that is too large for an event with [`Blobs::put_blob`] first. The append that refers to it lists its digest.
//! 5. Call [`OperationLog::compact`] occasionally, and [`OperationLog::compact_step`] while [`OperationLog::is_compaction_due`].
//! 6. After a failed write, the log rejects all later appends ([`LogError::Poisoned`]). Restart the process: opening the log
//!    again shows its actual content.
//!
//! # Guarantees
//!
//! | guarantee | proven by (in `tests/log`) |
//! | --- | --- |
//! | an acknowledged group is on the disk, not in a cache | `process.rs`, which reads the system calls |
//! | it survives the death of the process at any moment | `process.rs`, which repeatedly kills one |
//! | a group is complete or absent | the same |
//! | a damaged record affects only its own stream | `damaged_records.rs` |
//! | a damaged stream is still listed, with its known data and its problem | the same |
//! | a damaged database loses only the damaged records | `files.rs` |
//! | nothing is lost without a report, and the bytes are kept | both |
//! | manifests are on the disk only as ciphertext; a wrong key loses nothing | `sealed.rs` |
//! | a read-only directory, or one held by another process, can be read | `read_only.rs` |
//! | a full or read-only disk, a missing permission and a second process are reported | `process.rs`, `environment.rs` |
//! | logs of every released format are readable | `golden.rs` |
//! | a stream of an unknown kind is kept and reported | `kinds.rs` |
//! | records of an earlier layout are read; a later or unknown layout is rejected unchanged | `layouts.rs` |
//! | a replaced writer can no longer write | `kinds.rs` |
//! | the cost of a lookup depends on its results, not on the size of the log | the same |
//! | retained data is kept, and a kill during a compaction loses nothing | `compaction.rs`, `process.rs` |
//! | a log exceeds its retention by at most a tenth if its owner runs the due steps | `compaction.rs` |
//!
//! If a disk loses synced data, the log is not guaranteed to notice it before it is opened the next time.

mod api;
mod append_checks;
mod blobs;
mod codec;
mod copy;
mod error;
mod files;
mod frame;
mod holder;
mod inventory;
mod key;
mod memory;
mod quarantine;
mod retention;
mod sealed;
mod store;
mod stream;
mod witness;

pub use api::{Blobs, Inventories, Log, OperationLog, Store};
pub use codec::{Codecs, TypedLog};
pub use copy::PrivateCopy;
pub use error::LogError;
pub use holder::{Holder, is_held};
pub use inventory::{ApplicationInventory, Inventory, InventoryChange, InventoryUpdate};
pub use key::{Fingerprint, LogKey};
pub use memory::{Fault, MemoryLog};
pub use retention::Retention;
pub use sealed::SealedFolder;
pub use store::{OpenOptions, SledLog};
pub use stream::{
    Append, AppendOf, CompactionResult, Damage, Entry, EntryOf, Epoch, History, ImpairedStream, LoadedStream,
    LoadedStreamOf, LogEntries, LogStats, Lookup, RawAppend, RawEntry, RawLoadedStream, Record, StreamName,
    Summary,
};
