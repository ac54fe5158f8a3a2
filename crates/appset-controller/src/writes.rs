//! Writes to an ApplicationSet's Applications.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use tidegate_application::AppKey;
use tidegate_applicationset::changes::AppSetChanges;
use tidegate_applicationset::deletion::MemberDeletion;
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_model::argo::Application;
use tidegate_state::error::ServiceError;
use tidegate_stores::appsets::WriteResult;

use super::shared::AppSetShared;

/// Maximum number of concurrent writes.
const CONCURRENT_WRITES_MAX: usize = 8;

/// Result of the writes.
#[derive(Default)]
pub struct WriteSummary {
    /// True if anything was written.
    pub has_written: bool,
    /// True if a write conflicted and another pass is needed.
    pub is_outdated: bool,
    /// Failed writes, by Application name.
    pub failures: BTreeMap<String, ReconcileFailure>,
    /// True if some of the failures are temporary and worth a retry.
    pub is_transient: bool,
}

enum Write<'a> {
    Create(&'a Application),
    Update(&'a Application),
    Delete(&'a MemberDeletion),
}

impl Write<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Create(one) | Self::Update(one) => &one.metadata.name,
            Self::Delete(one) => &one.application.metadata.name,
        }
    }

    fn reason(&self) -> ConditionReason {
        match self {
            Self::Create(_) => ConditionReason::CreateApplicationError,
            Self::Update(_) => ConditionReason::UpdateApplicationError,
            Self::Delete(_) => ConditionReason::DeleteApplicationError,
        }
    }

    async fn execute(&self, shared: &AppSetShared) -> Result<WriteResult, ServiceError> {
        match self {
            Self::Create(one) => shared.store.create(one).await,
            Self::Update(one) => shared.store.update(one).await,
            Self::Delete(one) => delete_application(shared, one).await,
        }
    }
}

/// Creates, updates and deletes Applications. A failed write doesn't stop the others.
pub async fn write_changes(
    shared: &AppSetShared,
    changes: &AppSetChanges,
    deletes: &[MemberDeletion],
) -> WriteSummary {
    let creates = changes.create.iter().map(Write::Create);
    let updates = changes.update.iter().map(Write::Update);
    let all = creates.chain(updates).chain(deletes.iter().map(Write::Delete));
    let mut writes = WriteSummary::default();
    let all: Vec<_> = all.map(|write| execute_write(shared, write)).collect();
    let mut under_way = iter(all).buffer_unordered(CONCURRENT_WRITES_MAX);
    while let Some((name, reason, written)) = under_way.next().await {
        match written {
            Ok(WriteResult::Done) => writes.has_written = true,
            Ok(WriteResult::Outdated(why)) => {
                tracing::debug!(
                    application = name,
                    why,
                    "retrying the write of an Application of an ApplicationSet"
                );
                writes.is_outdated = true;
            }
            Err(error) => {
                let message = format!("Application {name}: {error}");
                tracing::warn!(application = name, %error, "failed to write an Application of an ApplicationSet");
                writes.is_transient = writes.is_transient || error.is_transient();
                writes.failures.insert(name, ReconcileFailure { reason, message });
            }
        }
    }
    writes
}

async fn execute_write(
    shared: &AppSetShared,
    write: Write<'_>,
) -> (String, ConditionReason, Result<WriteResult, ServiceError>) {
    let written = write.execute(shared).await;
    (write.name().to_owned(), write.reason(), written)
}

/// Deletes an Application, after orphaning any objects to keep.
pub async fn delete_application(
    shared: &AppSetShared,
    deletion: &MemberDeletion,
) -> Result<WriteResult, ServiceError> {
    let MemberDeletion { application, orphaning: before } = deletion;
    if let Some(orphaned) = before {
        let mut merged = application.clone();
        merged.metadata.finalizers.clone_from(&orphaned.finalizers);
        if let outdated @ WriteResult::Outdated(_) = shared.store.update(&merged).await? {
            return Ok(outdated);
        }
    }
    shared.store.delete_application(&AppKey::of(application), &application.metadata.uid).await?;
    Ok(WriteResult::Done)
}
