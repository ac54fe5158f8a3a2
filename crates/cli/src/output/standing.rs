//! Why nothing is under way for an application: what its operation waits for before it begins, or why there is none.

use serde::Serialize;
use tidegate_application::{automated, operation, refresh};
use tidegate_model::argo::{Application, ApplicationCondition, SyncStatusCode};
use tidegate_service::lines::{OperationLine, WindowLine};

use super::{Style, Text, one_line};

/// How an application stands of which no operation has begun.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// NAMESPACE/NAME, or its name.
    application: String,
    /// What is asked for, and what that waits for; or the last one.
    operation: Option<OperationLine>,
    /// Whether that has begun.
    #[serde(skip)]
    has_begun: bool,
    /// How it stands to its manifests.
    sync: SyncStatusCode,
    /// Whether it is synced by itself.
    automated: bool,
    /// Why nothing is done with it at all.
    left_alone: Option<String>,
    /// What its sync windows say.
    window: Option<WindowLine>,
    /// What is wrong with it.
    conditions: Vec<ApplicationCondition>,
}

impl Standing {
    pub fn of(
        application: &Application,
        operation: Option<OperationLine>,
        window: Option<WindowLine>,
    ) -> Self {
        let status = &application.status;
        // What is asked for says no more than that; what it waits for is in the state.
        let state = status.operation_state.as_ref().filter(|state| state.finished_at.is_none());
        let operation = operation.map(|operation| OperationLine {
            message: state.map_or(operation.message, |state| state.message.clone()),
            ..operation
        });
        Self {
            application: super::application::name(application),
            has_begun: operation.as_ref().is_some_and(|operation| operation.id.is_some())
                && operation::has_begun(application),
            operation,
            sync: status.sync.as_ref().map(|sync| sync.status).unwrap_or_default(),
            automated: automated(application).is_some(),
            left_alone: refresh::left_alone(application),
            window: window.filter(|window| window.reason.is_some()),
            conditions: status.conditions.clone(),
        }
    }

    pub fn text(&self) -> Text {
        let mut text = Text::new();
        let mut line = |label: &str, value: String| {
            text.add(Style::Dim, format!("{label:<16}"));
            text.add(Style::Plain, one_line(&value));
            text.end_line();
        };
        line("Application:", self.application.clone());
        match &self.operation {
            Some(operation) if self.has_begun => {
                line("Operation:", format!("{}: {}", operation.phase, operation.message));
            }
            Some(operation) if operation.finished_at.is_some() => {
                line("Operation:", format!("{}, before it began: {}", operation.phase, operation.message));
            }
            Some(operation) => line("Operation:", format!("not begun: {}", operation.message)),
            None => line("Operation:", self.none()),
        }
        line("Sync Status:", self.sync.to_string());
        self.left_alone.iter().for_each(|why| line("Left Alone:", why.clone()));
        self.window.iter().for_each(|window| line("Sync Window:", window.to_string()));
        for condition in &self.conditions {
            line("Condition:", format!("{}: {}", condition.kind, condition.message));
        }
        text
    }

    fn none(&self) -> String {
        let why = match (self.automated, self.sync) {
            _ if self.left_alone.is_some() => "none has begun, and none will",
            (false, _) => "none has begun; it is synced when somebody asks for that (`tidegate app sync`)",
            (true, SyncStatusCode::Synced) => "none has begun: it is as its manifests have it",
            (true, SyncStatusCode::Unknown) => "none has begun: it is not known yet what differs",
            (true, SyncStatusCode::OutOfSync) if self.window.is_some() => {
                "none has begun: a sync window keeps it back"
            }
            (true, SyncStatusCode::OutOfSync) => "none has begun yet",
        };
        why.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::OperationPhase;
    use tidegate_model::argo::ConditionType;

    use super::*;

    #[test]
    fn what_an_operation_waits_for_before_it_begins_is_told() {
        let mut application = Application::default();
        application.metadata.name = "shop".to_owned();
        let state = json!({
            "operation": {},
            "phase": "Running",
            "message": "waiting for db: it is not there",
            "startedAt": "2026-01-01T00:00:00Z",
        });
        application.status.operation_state = serde_json::from_value(state).unwrap();
        let kind = ConditionType::Other("DependencyError".to_owned());
        let message = "makes a cycle: a → b → a".to_owned();
        application.status.conditions =
            vec![ApplicationCondition { kind, message, last_transition_time: None }];
        let asked = OperationLine {
            id: None,
            phase: OperationPhase::Running,
            message: "asked for, and not begun yet".to_owned(),
            started_at: None,
            finished_at: None,
            by: "jane".to_owned(),
            reason: String::new(),
        };
        let reason = Some("2 windows of project fleet, until 12:00".to_owned());
        let window = WindowLine { automated: false, manual: false, reason };
        let standing = Standing::of(&application, Some(asked), Some(window));
        let text = standing.text().render(false);
        for part in [
            "not begun: waiting for db: it is not there",
            "Sync Denied: 2 windows",
            "DependencyError: makes a cycle",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let document = serde_json::to_value(&standing).unwrap();
        assert_eq!(document["operation"]["message"], "waiting for db: it is not there");
        let idle = Standing::of(&Application::default(), None, None).text().render(false);
        assert!(idle.contains("when somebody asks for that"), "{idle}");
    }
}
