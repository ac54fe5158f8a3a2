//! Finds the requested operation among the application's. Another one may start right after it finishes.

use std::cell::Cell;

use tidegate_application::operation;
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, OperationRequest};

/// The requested operation, once it has been observed.
pub(super) struct PendingRequest {
    /// Operations that existed before the request.
    earlier_operations: Vec<OperationId>,
    id: Cell<Option<OperationId>>,
}

impl PendingRequest {
    /// Records the operations that exist before the request.
    pub fn new(known: &Application) -> Self {
        Self {
            earlier_operations: operation_requests(known).filter_map(operation::engine_id).collect(),
            id: Cell::new(None),
        }
    }

    /// Looks for the requested operation.
    pub fn observe(&self, application: &Application) {
        let is_other = |request: &&OperationRequest| {
            !request.initiated_by.automated && operation::deletion_cascade(request).is_none()
        };
        let mut newer = operation_requests(application).filter(is_other).filter_map(operation::engine_id);
        if self.id.get().is_none() {
            self.id.set(newer.find(|id| !self.earlier_operations.contains(id)));
        }
    }

    /// Returns the requested operation's ID if it has finished: the application now reports only other
    /// operations.
    pub fn ended_operation(&self, application: &Application) -> Option<OperationId> {
        self.id
            .get()
            .filter(|own| operation_requests(application).all(|one| operation::engine_id(one) != Some(*own)))
    }

    /// Returns true if the requested operation has finished or another was requested after it.
    pub fn has_successor(&self, application: &Application) -> bool {
        let wanted = application.operation.as_ref().map(operation::engine_id);
        let is_other = |own| wanted.is_some_and(|wanted| wanted != Some(own));
        self.ended_operation(application).is_some() || self.id.get().is_some_and(is_other)
    }
}

/// Returns the application's operations. The one in the status comes first, because it is older than the
/// requested one.
fn operation_requests(application: &Application) -> impl Iterator<Item = &OperationRequest> {
    let current = application.status.operation_state.as_ref().map(|state| &state.operation);
    current.into_iter().chain(&application.operation)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const EARLIER_ID: &str = "01890000-0000-7000-8000-000000000001";
    const OWN_ID: &str = "01890000-0000-7000-8000-000000000002";
    const LATER_ID: &str = "01890000-0000-7000-8000-000000000003";

    fn operation_json(id: &str, automated: bool) -> Value {
        json!({
            "sync": {}, "initiatedBy": {"automated": automated},
            "info": [{"name": operation::ID_INFO, "value": id}],
        })
    }

    fn application(wanted: Option<Value>, current: Value, is_over: bool) -> Application {
        let mut text = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {"operationState": {"operation": current, "phase": "Running", "startedAt": "2026-01-01T00:00:01Z"}},
        });
        if is_over {
            text["status"]["operationState"]["phase"] = "Succeeded".into();
            text["status"]["operationState"]["finishedAt"] = "2026-01-01T00:00:05Z".into();
        }
        text["operation"] = wanted.unwrap_or_default();
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_own_operation_differs_from_earlier_and_later_ones() {
        let (own, next) = (|| operation_json(OWN_ID, false), || operation_json(LATER_ID, true));
        let before =
            application(Some(operation_json(EARLIER_ID, false)), operation_json(EARLIER_ID, false), false);
        let (one, id) = (PendingRequest::new(&before), OWN_ID.parse().ok());
        one.observe(&before);
        assert_eq!(one.id.get(), None, "it is waiting for another operation");
        let begins = application(Some(own()), operation_json(EARLIER_ID, false), true);
        one.observe(&begins);
        assert_eq!(one.id.get(), id);
        let runs = application(Some(own()), own(), false);
        let over = application(None, own(), true);
        for (told, application) in [("begins", &begins), ("runs", &runs), ("over", &over)] {
            assert_eq!(one.ended_operation(application), None, "{told}");
            assert!(!one.has_successor(application), "{told}");
        }
        let followed = application(Some(next()), own(), true);
        assert!(one.has_successor(&followed) && one.ended_operation(&followed).is_none());
        let gone = application(Some(next()), next(), false);
        one.observe(&gone);
        assert!(one.has_successor(&gone) && one.ended_operation(&gone) == id);
    }

    #[test]
    fn an_automated_operation_is_not_the_requested_one() {
        let nothing = application(None, operation_json(EARLIER_ID, true), true);
        let one = PendingRequest::new(&nothing);
        let other = application(Some(operation_json(LATER_ID, true)), operation_json(LATER_ID, true), false);
        one.observe(&other);
        assert!(one.id.get().is_none() && !one.has_successor(&other));
    }
}
