//! The durable operation log: facts in order, and what a killed or powered-off machine finds again.
//!
//! [`OperationLog`] is what a store of streams does; [`TypedLog`] reads and writes them as the facts of one machine;
//! [`Blobs`] and [`Inventories`] are what is kept beside them. The executor has all of it as one [`Store`].
//! [`SledLog`] keeps it in a state directory, [`MemoryLog`] in memory, for tests and the simulator; one suite of tests
//! holds both to the same promises.
//!
//! # How it is used
//!
//! 1. Open it. Damage is found, set aside and reported by [`OperationLog::damage`] now, not later: what can be loaded
//!    after opening was checked record by record.
//! 2. [`OperationLog::load`] every open stream, fold snapshot and facts, go on.
//! 3. Decide; [`OperationLog::append`] the facts of all streams that decided meanwhile as one group; act only when it
//!    returns. One group is one flush, however many facts it has.
//! 4. Content larger than a fact goes to [`Blobs::put_blob`] first; the append that mentions it lists its digest.
//! 5. [`OperationLog::compact`] now and then.
//! 6. An append that fails in writing leaves a log that refuses more ([`LogError::Poisoned`]). Restart: opening it again
//!    tells what is there.
//!
//! # What it promises
//!
//! | promise | proven by (in `tests/log`) |
//! | --- | --- |
//! | an acknowledged group is on the disk, not in a cache | `process.rs`, which reads the system calls |
//! | it survives the death of the process at any moment | `process.rs`, which kills one again and again |
//! | a group is there wholly or not at all | the same |
//! | a damaged record costs its stream and no other | `records.rs` |
//! | a stream that is damaged is still listed, with what is known and what is wrong | the same |
//! | a damaged database costs the records that were hit | `files.rs` |
//! | nothing is lost without a report, and the bytes are kept | both |
//! | manifests are on the disk only as ciphertext; a wrong key costs nothing | `sealed.rs` |
//! | a directory that may only be read, or that another process has, can be read | `reading.rs` |
//! | a full or read-only disk, a missing permission, a second process are named | `process.rs`, `environment.rs` |
//! | logs of every released format are read | `golden.rs` |
//! | a stream of a kind that is not known is kept and named; a later layout is refused untouched | `kinds.rs` |
//! | whoever was replaced as a writer writes no more | the same |
//! | a lookup reads what it finds, and not what the log holds | the same |
//! | what is to be kept is kept, and a kill in a compaction costs nothing | `keeping.rs`, `process.rs` |
//!
//! What it does not promise: that a disk which loses what it said it synced is noticed before the next opening.

mod api;
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
mod rules;
mod sealed;
mod store;
mod stream;
mod witness;

pub use api::{Blobs, Inventories, Log, OperationLog, Store};
pub use codec::{Codecs, TypedLog};
pub use copy::PrivateCopy;
pub use error::LogError;
pub use holder::{Holder, is_held};
pub use inventory::{Inventory, InventoryChange, InventoryUpdate, Known};
pub use key::{Fingerprint, LogKey};
pub use memory::{Fault, MemoryLog};
pub use retention::Retention;
pub use sealed::SealedFolder;
pub use store::{OpenOptions, SledLog};
pub use stream::{
    Append, AppendOf, Compacted, Damage, Entry, EntryOf, Epoch, History, Impaired, Loaded, LoadedOf,
    LogStats, Lookup, RawAppend, RawEntry, RawLoaded, Record, StreamName, Summary,
};
