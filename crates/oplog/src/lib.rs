//! The durable operation log: ordered events that survive crashes and power failures.
//!
//! [`OperationLog`] stores streams, and [`TypedLog`] reads and writes them as the events of one machine.
//! [`Blobs`] and [`Inventories`] are stored alongside. The executor uses all of them as one [`Store`].
//! [`SledLog`] keeps everything in a state directory, [`PostgresLog`] in a database that several processes share,
//! and [`MemoryLog`] in memory, for tests and the simulator. A shared test suite checks that all of them provide
//! the same guarantees.
//!
//! # Usage
//!
//! 1. Open the log. Opening detects and quarantines damage, and [`OperationLog::damage`] reports it. Every
//!    record that can be loaded from an open log has been checked.
//! 2. [`OperationLog::load`] every open stream, fold its snapshot and events, and continue.
//! 3. Decide on the next events, and [`OperationLog::append`] them. Execute commands only after the call
//!    returns. Each group takes one flush, however many events it contains, so append the waiting events of
//!    all streams together.
//! 4. If content is too large for an event, store it with [`Blobs::put_blob`] first. List its digest in the
//!    append that refers to it.
//! 5. Call [`OperationLog::compact`] occasionally, and [`OperationLog::compact_step`] while
//!    [`OperationLog::is_compaction_due`].
//! 6. After a failed write, the log rejects all appends ([`LogError::Poisoned`]). Restart the process:
//!    reopening the log reveals its actual content.
//!
//! # Guarantees
//!
//! | guarantee | tests (in `tests/log`) |
//! | --- | --- |
//! | an acknowledged group is on disk, not in a cache | `process.rs`, which reads the system calls |
//! | an acknowledged group survives a crash at any moment | `process.rs`, which repeatedly kills a process |
//! | a group is either complete or absent | `process.rs` |
//! | a damaged record affects only its own stream | `damaged_records.rs` |
//! | a damaged stream is still listed, with its remaining data and the problem | `damaged_records.rs` |
//! | a damaged database loses only the damaged records | `files.rs` |
//! | nothing is lost without a report, and damaged bytes are kept | `damaged_records.rs`, `files.rs` |
//! | manifests are on disk only as ciphertext; a wrong key loses nothing | `sealed.rs` |
//! | a log can be read if its directory is read-only or in use by another process | `read_only.rs` |
//! | a full or read-only disk, a missing permission and a second process are reported | `process.rs`, `environment.rs` |
//! | logs of every released format are readable | `golden.rs` |
//! | a stream of an unknown kind is kept and reported | `kinds.rs` |
//! | earlier record layouts are read; later and unknown layouts are rejected unchanged | `layouts.rs` |
//! | a writer that was replaced can no longer write | `kinds.rs` |
//! | the cost of a lookup depends on its results, not on the size of the log | `kinds.rs` |
//! | retained data is kept, and a crash during a compaction loses nothing | `compaction.rs`, `process.rs` |
//! | a log exceeds its retention by at most a tenth if due steps are run | `compaction.rs` |
//! | a copy of a log has the same records, and an interrupted copy is never used | `log_copy.rs` |
//!
//! If a disk loses synced data, the log may not notice until it is reopened.

mod api;
mod append_checks;
mod blobs;
mod codec;
mod copy;
mod error;
mod files;
mod frame;
mod holder;
mod image;
mod inventory;
mod key;
mod log_copy;
mod marks;
mod memory;
mod owned_shards;
mod postgres;
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
pub use key::{Fingerprint, LogKey, existing_key};
pub use log_copy::{CopyCounts, CopyEnd, CopyError, CopyScan};
pub use marks::{LogAccess, check_not_moved};
pub use memory::{Fault, MemoryLog};
pub use owned_shards::OwnedShards;
pub use postgres::{
    DrainRequest, HeartbeatObserver, KeptKind, LeadAttempt, ListedReplica, Loss, Ownership, PostgresLog,
    PostgresOptions, PostgresTarget, Replica, ReplicaState, Shard, TENURE_COVERAGE,
};
pub use retention::Retention;
pub use sealed::SealedFolder;
pub use store::{OpenOptions, SledLog};
pub use stream::{
    Append, AppendOf, CompactionResult, Damage, Entry, EntryOf, Epoch, History, ImpairedStream, LoadedStream,
    LoadedStreamOf, LogEntries, LogStats, Lookup, RawAppend, RawEntry, RawLoadedStream, Record, StreamName,
    Summary,
};
