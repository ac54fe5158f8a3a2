//! What the actors of the applications, and their supervisor, are told.

use std::collections::BTreeSet;

use ractor::RpcReplyPort;
use tidegate_application::operation::Progress;
use tidegate_application::refresh::Level;
use tidegate_model::argo::{ComparedTo, OperationRequest};
use tidegate_model::{Cascade, OperationId, Timestamp};
use tidegate_source::Address;

use super::comparing::Compared;
use super::store::{AppKey, StoreEvent, Stored};

/// A message to the supervisor.
pub(crate) enum SupervisorMessage {
    /// Something has happened in the store.
    Store(StoreEvent),
    /// An object of this application has changed.
    Stirred(AppKey),
    /// This application stands in another way: those that depend on it, or that it depends on, may care.
    Stood(AppKey),
    /// Something has changed between these and another one.
    Related(BTreeSet<AppKey>),
    /// The names of these repositories have moved; one application knows.
    Moved { addresses: Vec<Address>, but: Option<AppKey> },
    /// Other clusters can be used now, or cannot any more.
    Places,
    /// An application is to be compared.
    Compare { key: AppKey, level: Level },
    /// Somebody asks for an operation.
    Sync { key: AppKey, asked: Box<OperationRequest>, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody ends an operation.
    Terminate { key: AppKey, by: String, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody deletes an application.
    Delete { key: AppKey, cascade: Cascade, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody goes back to a sync of the history.
    Rollback {
        key: AppKey,
        id: Option<i64>,
        prune: bool,
        by: String,
        reply: RpcReplyPort<Result<(), String>>,
    },
}

/// A message to the actor of an application.
pub(crate) enum AppMessage {
    /// It is written down in another way.
    Changed(Box<Stored>),
    /// It is to be compared.
    Compare(Level),
    /// Something in the cluster has changed; others may have as well.
    Stirred,
    /// An application that it depends on, or that depends on it, stands in another way.
    Related,
    /// A comparison has ended. It was made with what was wanted then.
    Compared { compared: Box<Compared>, with: Box<ComparedTo>, level: Level, began: Timestamp },
    /// The operation that is asked for can be begun, or cannot.
    Prepared(Result<(Vec<String>, OperationId), String>),
    /// How its operation stands.
    Moved { operation: OperationId, progress: Box<Progress> },
    /// Somebody asks for an operation.
    Sync { asked: Box<OperationRequest>, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody ends its operation.
    Terminate { by: String, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody deletes it.
    Delete { cascade: Cascade, reply: RpcReplyPort<Result<(), String>> },
    /// Somebody goes back to a sync of its history.
    Rollback { id: Option<i64>, prune: bool, by: String, reply: RpcReplyPort<Result<(), String>> },
    /// It is time to look what is due.
    Wake,
}
