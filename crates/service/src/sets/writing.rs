//! What is done to the Applications of a set.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use tidegate_applicationset::changes::Changes;
use tidegate_applicationset::deletion::Deletion;
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_model::argo::Application;

use super::shared::SetShared;
use super::store::Written;
use crate::applications::store::AppKey;
use crate::error::ServiceError;

/// So many are written at once.
const AT_ONCE: usize = 8;

/// What came of it.
#[derive(Default)]
pub(crate) struct Writes {
    /// Something was written.
    pub done: bool,
    /// Somebody was faster: it is looked at again.
    pub outdated: bool,
    /// What could not be written, by the names of the Applications.
    pub failed: BTreeMap<String, Failure>,
    /// Some of that may be written in a moment, though nobody changes anything.
    pub is_passing: bool,
}

enum Write<'a> {
    Create(&'a Application),
    Update(&'a Application),
    Delete(&'a Deletion),
}

impl Write<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Create(one) | Self::Update(one) => &one.metadata.name,
            Self::Delete(one) => &one.application.metadata.name,
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Create(_) => Reason::CreateApplicationError,
            Self::Update(_) => Reason::UpdateApplicationError,
            Self::Delete(_) => Reason::DeleteApplicationError,
        }
    }

    async fn carry_out(&self, shared: &SetShared) -> Result<Written, ServiceError> {
        match self {
            Self::Create(one) => shared.store.create(one).await,
            Self::Update(one) => shared.store.update(one).await,
            Self::Delete(one) => delete(shared, one).await,
        }
    }
}

/// Creates, changes and deletes. What cannot be done keeps nothing else from it.
pub(crate) async fn write(shared: &SetShared, changes: &Changes, deletes: &[Deletion]) -> Writes {
    let creates = changes.create.iter().map(Write::Create);
    let updates = changes.update.iter().map(Write::Update);
    let all = creates.chain(updates).chain(deletes.iter().map(Write::Delete));
    let mut writes = Writes::default();
    let all: Vec<_> = all.map(|write| written(shared, write)).collect();
    let mut under_way = iter(all).buffer_unordered(AT_ONCE);
    while let Some((name, reason, written)) = under_way.next().await {
        match written {
            Ok(Written::Done) => writes.done = true,
            Ok(Written::Outdated(why)) => {
                tracing::debug!(application = name, why, "an Application of a set is written again");
                writes.outdated = true;
            }
            Err(error) => {
                let message = format!("Application {name}: {error}");
                tracing::warn!(application = name, %error, "an Application of a set cannot be written");
                writes.is_passing = writes.is_passing || error.is_passing();
                writes.failed.insert(name, Failure { reason, message });
            }
        }
    }
    writes
}

async fn written(shared: &SetShared, write: Write<'_>) -> (String, Reason, Result<Written, ServiceError>) {
    let written = write.carry_out(shared).await;
    (write.name().to_owned(), write.reason(), written)
}

/// Deletes an Application; before that its objects are let go, if they are to stay.
pub(crate) async fn delete(shared: &SetShared, deletion: &Deletion) -> Result<Written, ServiceError> {
    let Deletion { application, before } = deletion;
    if let Some(orphaned) = before {
        let mut kept = application.clone();
        kept.metadata.finalizers.clone_from(&orphaned.finalizers);
        if let outdated @ Written::Outdated(_) = shared.store.update(&kept).await? {
            return Ok(outdated);
        }
    }
    shared.store.delete_application(&AppKey::of(application), &application.metadata.uid).await?;
    Ok(Written::Done)
}
