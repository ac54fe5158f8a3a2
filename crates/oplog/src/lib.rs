//! The durable operation log: facts in order, and what a killed or powered-off machine finds again.
//!
//! [`OperationLog`] is what the executor sees. [`SledLog`] keeps it in a state directory; [`MemoryLog`] keeps it in
//! memory, for tests and the simulator; one suite of tests holds both to the same promises.
//!
//! # How it is used
//!
//! 1. Open it. Damage is found, set aside and reported by [`OperationLog::damage`] now, not later: what can be loaded
//!    after opening was checked record by record.
//! 2. [`OperationLog::load`] every open operation, fold snapshot and facts, go on.
//! 3. Decide; [`OperationLog::append`] the facts of all operations that decided meanwhile as one group; act only when it
//!    returns. One group is one flush, however many facts it has.
//! 4. Content larger than a fact goes to [`OperationLog::put_blob`] first; the append that mentions it lists its digest.
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
//! | a damaged record costs its operation and no other | `records.rs` |
//! | an operation that is damaged is still listed, with what is known and what is wrong | the same |
//! | a damaged database costs the records that were hit | `files.rs` |
//! | nothing is lost without a report, and the bytes are kept | both |
//! | manifests are on the disk only as ciphertext; a wrong key costs nothing | `sealed.rs` |
//! | a directory that may only be read, or that another process has, can be read | `reading.rs` |
//! | a full or read-only disk, a missing permission, a second process are named | `process.rs`, `environment.rs` |
//! | logs of every released format are read | `golden.rs` |
//!
//! What it does not promise: that a disk which loses what it said it synced is noticed before the next opening.

mod api;
mod blobs;
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
mod store;
mod witness;

pub use api::{Append, Compacted, Damage, Impaired, Loaded, LogStats, OperationLog, Summary};
pub use copy::PrivateCopy;
pub use error::LogError;
pub use holder::{Holder, is_held};
pub use inventory::{Inventory, InventoryChange, InventoryUpdate, Known};
pub use key::{Fingerprint, LogKey};
pub use memory::{Fault, MemoryLog};
pub use store::{OpenOptions, SledLog};
