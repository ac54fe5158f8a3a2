//! The operation that somebody has asked for, among all of its application: another one may follow it at once.

use std::cell::Cell;

use tidegate_application::operation;
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, OperationRequest};

/// The operation that was asked for, from the moment when it is seen.
pub(super) struct Own {
    /// What was there before it was asked for.
    before: Vec<OperationId>,
    id: Cell<Option<OperationId>>,
}

impl Own {
    /// Nothing was asked for yet of an application that stands like this.
    pub fn before(known: &Application) -> Self {
        Self { before: named(known).filter_map(operation::id).collect(), id: Cell::new(None) }
    }

    /// Looks which one it is.
    pub fn look(&self, application: &Application) {
        let is_other =
            |asked: &&OperationRequest| !asked.initiated_by.automated && operation::cascade(asked).is_none();
        let mut newer = named(application).filter(is_other).filter_map(operation::id);
        if self.id.get().is_none() {
            self.id.set(newer.find(|id| !self.before.contains(id)));
        }
    }

    /// Its id, where the application tells only of others by now: it is over.
    pub fn gone(&self, application: &Application) -> Option<OperationId> {
        self.id.get().filter(|own| named(application).all(|one| operation::id(one) != Some(*own)))
    }

    /// Whether it is over, and another one is wanted already.
    pub fn is_followed(&self, application: &Application) -> bool {
        let wanted = application.operation.as_ref().map(operation::id);
        let is_other = |own| wanted.is_some_and(|wanted| wanted != Some(own));
        self.gone(application).is_some() || self.id.get().is_some_and(is_other)
    }
}

/// What is told of an application's operations: what its status says first, as what is asked for comes after it.
fn named(application: &Application) -> impl Iterator<Item = &OperationRequest> {
    let told = application.status.operation_state.as_ref().map(|state| &state.operation);
    told.into_iter().chain(&application.operation)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BEFORE: &str = "01890000-0000-7000-8000-000000000001";
    const OWN: &str = "01890000-0000-7000-8000-000000000002";
    const NEXT: &str = "01890000-0000-7000-8000-000000000003";

    fn asked(id: &str, automated: bool) -> Value {
        json!({
            "sync": {}, "initiatedBy": {"automated": automated},
            "info": [{"name": operation::ID_REMARK, "value": id}],
        })
    }

    fn application(wanted: Option<Value>, told: Value, is_over: bool) -> Application {
        let mut text = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {"operationState": {"operation": told, "phase": "Running", "startedAt": "2026-01-01T00:00:01Z"}},
        });
        if is_over {
            text["status"]["operationState"]["phase"] = "Succeeded".into();
            text["status"]["operationState"]["finishedAt"] = "2026-01-01T00:00:05Z".into();
        }
        text["operation"] = wanted.unwrap_or_default();
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn one_own_is_told_from_those_before_and_after_it() {
        let (own, next) = (|| asked(OWN, false), || asked(NEXT, true));
        let before = application(Some(asked(BEFORE, false)), asked(BEFORE, false), false);
        let (one, id) = (Own::before(&before), OWN.parse().ok());
        one.look(&before);
        assert_eq!(one.id.get(), None, "it waits for another one");
        let begins = application(Some(own()), asked(BEFORE, false), true);
        one.look(&begins);
        assert_eq!(one.id.get(), id);
        let runs = application(Some(own()), own(), false);
        let over = application(None, own(), true);
        for (told, application) in [("begins", &begins), ("runs", &runs), ("over", &over)] {
            assert_eq!(one.gone(application), None, "{told}");
            assert!(!one.is_followed(application), "{told}");
        }
        let followed = application(Some(next()), own(), true);
        assert!(one.is_followed(&followed) && one.gone(&followed).is_none());
        let gone = application(Some(next()), next(), false);
        one.look(&gone);
        assert!(one.is_followed(&gone) && one.gone(&gone) == id);
    }

    #[test]
    fn what_begins_by_itself_is_nobodys_own() {
        let nothing = application(None, asked(BEFORE, true), true);
        let one = Own::before(&nothing);
        let other = application(Some(asked(NEXT, true)), asked(NEXT, true), false);
        one.look(&other);
        assert!(one.id.get().is_none() && !one.is_followed(&other));
    }
}
