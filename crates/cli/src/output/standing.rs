//! Why nothing is under way for an application: what its operation waits for before it begins, or why there is none.

use serde::Serialize;
use tidegate_application::{automated, operation, refresh};
use tidegate_applicationset::policy::{Options, is_progressive};
use tidegate_model::argo::{Application, ApplicationCondition, ApplicationSet, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationId};
use tidegate_service::applications::store::AppKey;
use tidegate_service::documents::runs::OUTSIDE;
use tidegate_service::lines::{OperationLine, WindowLine};

use super::{Style, Text, one_line};

/// How an application stands of which no operation is at work.
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
    /// The older operation that has to be over before it begins.
    after: Option<OperationId>,
    /// Why none is under way; nothing where one is.
    idle: Option<String>,
    /// How it stands to its manifests.
    sync: SyncStatusCode,
    /// How well it does.
    health: HealthStatus,
    /// Whether it is synced by itself.
    automated: bool,
    /// The set that has it synced step by step; nothing where none does, and where an operation is under way.
    set: Option<OfSet>,
    /// Why nothing is done with it at all.
    left_alone: Option<String>,
    /// What its sync windows say.
    window: Option<WindowLine>,
    /// What is wrong with it.
    conditions: Vec<ApplicationCondition>,
}

/// What is known of an application beside its resource.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// What its sync windows say.
    pub window: Option<WindowLine>,
    /// The set that has it synced.
    pub set: Option<OfSet>,
    /// The older operation that has to be over before the one that is asked for begins.
    pub after: Option<OperationId>,
}

/// The ApplicationSet that has an application synced, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfSet {
    /// NAMESPACE/NAME, or its name.
    name: String,
    /// The number of the step that selects it, from 1; nothing where none does, and where that is not known.
    step: Option<u32>,
    /// When it is synced.
    #[serde(skip)]
    turn: Turn,
}

/// When the set of an application has it synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Whether it does is not known: the set could not be asked.
    Unasked,
    /// In a step that is not known yet.
    Later,
    /// In this step.
    InStep(u32),
    /// In this step, which leaves it to people.
    ByHand(u32),
    /// Never: no step selects it.
    NoStep,
}

impl OfSet {
    /// Of a set that could not be asked.
    pub fn unasked(set: &AppKey) -> Self {
        Self { name: set.to_string(), step: None, turn: Turn::Unasked }
    }

    /// Of the set that answers for an application; nothing where that leaves syncs to its applications.
    pub fn of(set: &ApplicationSet, options: &Options, application: &Application) -> Option<Self> {
        if !is_progressive(set, options) {
            return None;
        }
        let mut members = set.status.application_status.iter();
        let member = members.find(|one| one.application == application.metadata.name);
        let step: Option<u32> = member.and_then(|member| member.step.parse().ok());
        let turn = match (member, step) {
            (_, Some(step)) if is_left_to_people(set, step) => Turn::ByHand(step),
            (_, Some(step)) => Turn::InStep(step),
            (Some(member), None) if member.step == OUTSIDE => Turn::NoStep,
            _ => Turn::Later,
        };
        Some(Self { name: AppKey::of_set(set).to_string(), step, turn })
    }

    /// Why no operation is under way, and what to do.
    fn why_none(&self, none: &str, sync: SyncStatusCode) -> String {
        let name = &self.name;
        let belongs = format!("{none}; it belongs to ApplicationSet {name}");
        let explain = format!("`tidegate appset explain {name}`");
        match (self.turn, sync) {
            (Turn::InStep(step) | Turn::ByHand(step), SyncStatusCode::Synced) => format!(
                "{none}: it is as its manifests have it; the rollouts of ApplicationSet {name} have it in step {step}"
            ),
            (Turn::InStep(step), _) => {
                format!(
                    "{belongs}, whose rollout syncs it in step {step}; {explain} says what that waits for"
                )
            }
            (Turn::ByHand(step), _) => format!(
                "{belongs}, whose rollout has it in step {step} and leaves it to people (maxUpdate): sync it (`tidegate app sync`) when {explain} says that this step waits for that"
            ),
            (Turn::Later, _) => {
                format!("{belongs}, whose rollout syncs it when its step comes; {explain} says where that is")
            }
            (Turn::NoStep, _) => format!(
                "{belongs}, no step of which selects it: it is synced when somebody asks for that (`tidegate app sync`)"
            ),
            (Turn::Unasked, _) => format!(
                "{belongs}: where that syncs step by step, {explain} says what it waits for; elsewhere it is synced when somebody asks for that (`tidegate app sync`)"
            ),
        }
    }
}

/// Whether a step of the progressive sync of a set begins no sync by itself.
fn is_left_to_people(set: &ApplicationSet, step: u32) -> bool {
    let place = usize::try_from(step).ok().and_then(|step| step.checked_sub(1));
    let rolling = set.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_sync.as_ref());
    let found = rolling.zip(place).and_then(|(rolling, place)| rolling.steps.get(place));
    let most = found.and_then(|step| step.max_update.as_ref()).map(ToString::to_string);
    most.is_some_and(|most| ["0", "0%"].contains(&most.as_str()))
}

impl Standing {
    pub fn of(application: &Application, operation: Option<OperationLine>, beside: Beside) -> Self {
        let status = &application.status;
        // What is asked for says no more than that; what it waits for is in the state.
        let state = status.operation_state.as_ref().filter(|state| state.finished_at.is_none());
        let operation = operation.map(|operation| OperationLine {
            message: state.map_or(operation.message, |state| state.message.clone()),
            ..operation
        });
        let standing = Self {
            application: super::application::name(application),
            has_begun: operation.as_ref().is_some_and(|operation| operation.id.is_some())
                && operation::has_begun(application),
            operation,
            after: beside.after,
            idle: None,
            sync: status.sync.as_ref().map(|sync| sync.status).unwrap_or_default(),
            health: status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status),
            automated: automated(application).is_some(),
            set: beside.set,
            left_alone: refresh::left_alone(application),
            window: beside.window.filter(|window| window.reason.is_some()),
            conditions: status.conditions.clone(),
        };
        Self { idle: standing.why_none(), ..standing }
    }

    /// All of it.
    pub fn text(&self) -> Text {
        let mut text = Text::new();
        line(&mut text, "Application:", &self.application);
        line(&mut text, "Operation:", &self.operation_words());
        text.append(self.rest());
        text
    }

    /// What there is to know beside the last operation, which is over.
    pub fn rest(&self) -> Text {
        let mut text = Text::new();
        let mut add = |label: &str, value: &str| line(&mut text, label, value);
        if self.operation.is_some() {
            self.idle.iter().for_each(|why| add("Next Operation:", why));
        }
        add("Sync Status:", &self.sync.to_string());
        add("Health Status:", &format!("{:?}", self.health));
        self.left_alone.iter().for_each(|why| add("Left Alone:", why));
        self.window.iter().for_each(|window| add("Sync Window:", &window.to_string()));
        for condition in &self.conditions {
            add("Condition:", &format!("{}: {}", condition.kind, condition.message));
        }
        text
    }

    fn operation_words(&self) -> String {
        let Some(operation) = &self.operation else { return self.idle.clone().unwrap_or_default() };
        match (operation.finished_at, self.after) {
            _ if self.has_begun => format!("{}: {}", operation.phase, operation.message),
            (Some(_), _) => format!("{}, before it began: {}", operation.phase, operation.message),
            (None, None) => format!("not begun: {}", operation.message),
            (None, Some(older)) => format!(
                "not begun: {}; it begins when operation {older} is over (`tidegate explain {older}`)",
                operation.message
            ),
        }
    }

    fn why_none(&self) -> Option<String> {
        let none = match &self.operation {
            Some(operation) if operation.finished_at.is_none() => return None,
            Some(_) => "none has begun since",
            None => "none has begun",
        };
        let why = match (&self.set, self.automated, self.sync) {
            _ if self.left_alone.is_some() => ", and none will",
            // One that was not asked decides nothing for those that are synced by themselves.
            (Some(set), is_automated, sync) if set.turn != Turn::Unasked || !is_automated => {
                return Some(set.why_none(none, sync));
            }
            (_, false, _) => "; it is synced when somebody asks for that (`tidegate app sync`)",
            (_, true, SyncStatusCode::Synced) => ": it is as its manifests have it",
            (_, true, SyncStatusCode::Unknown) => ": it is not known yet what differs",
            (_, true, SyncStatusCode::OutOfSync) if self.window.is_some() => ": a sync window keeps it back",
            (_, true, SyncStatusCode::OutOfSync) if !self.conditions.is_empty() => {
                "; the conditions may say why"
            }
            (_, true, SyncStatusCode::OutOfSync) => ", and one is due",
        };
        Some(format!("{none}{why}"))
    }
}

fn line(text: &mut Text, label: &str, value: &str) {
    text.add(Style::Dim, format!("{label:<16}"));
    text.add(Style::Plain, one_line(value));
    text.end_line();
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
            dry_run: false,
            finished_at: None,
            by: "jane".to_owned(),
            reason: String::new(),
        };
        let reason = Some("2 windows of project fleet, until 12:00".to_owned());
        let window = WindowLine { automated: false, manual: false, reason };
        let beside = Beside { window: Some(window), ..Beside::default() };
        let standing = Standing::of(&application, Some(asked.clone()), beside);
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
        assert_eq!(document["idle"], json!(null));
        let idle = told(&Application::default(), Beside::default());
        assert!(idle.contains("when somebody asks for that"), "{idle}");
        // What is at work in the log is over first.
        let older = "01890000-0000-7000-8000-000000000001".parse().unwrap();
        let beside = Beside { after: Some(older), ..Beside::default() };
        let text = Standing::of(&application, Some(asked), beside).text().render(false);
        assert!(
            text.contains(&format!("it begins when operation {older} is over (`tidegate explain {older}`)")),
            "{text}"
        );
    }

    fn told(application: &Application, beside: Beside) -> String {
        Standing::of(application, None, beside).text().render(false)
    }

    fn over(phase: OperationPhase) -> OperationLine {
        let at = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        OperationLine {
            id: None,
            phase,
            message: "its last words".to_owned(),
            started_at: Some(at),
            finished_at: Some(at),
            dry_run: false,
            by: "jane".to_owned(),
            reason: String::new(),
        }
    }

    #[test]
    fn why_none_follows_the_last_operation_is_told_beside_it() {
        let application: Application = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
            "spec": {
                "project": "default", "destination": {"name": "in-cluster"},
                "syncPolicy": {"automated": {}},
            },
            "status": {
                "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"},
                "conditions": [{"type": "SyncError", "message": "Skipping sync attempt"}],
            },
        }))
        .unwrap();
        let last = Some(over(OperationPhase::Succeeded));
        let standing = Standing::of(&application, last, Beside::default());
        let rest = standing.rest().render(false);
        for part in [
            "Next Operation: none has begun since; the conditions may say why\n",
            "Sync Status:    OutOfSync\n",
            "Health Status:  Missing\n",
            "Condition:      SyncError: Skipping sync attempt\n",
        ] {
            assert!(rest.contains(part), "{part}: {rest}");
        }
        assert!(!rest.contains("its last words") && !rest.contains("shop"), "{rest}");
        let whole = standing.text().render(false);
        assert!(whole.contains("its last words") && whole.ends_with(&rest), "{whole}");
        let document = serde_json::to_value(&standing).unwrap();
        assert_eq!(document["idle"], "none has begun since; the conditions may say why");
        assert_eq!((&document["health"], &document["set"]), (&json!("Missing"), &json!(null)));
    }

    fn set(max_update: serde_json::Value) -> ApplicationSet {
        let mut set = ApplicationSet::default();
        set.metadata.name = "shops".to_owned();
        let strategy = json!({
            "type": "RollingSync",
            "rollingSync": {"steps": [{}, {"maxUpdate": max_update}]},
        });
        set.spec.strategy = Some(serde_json::from_value(strategy).unwrap());
        set.status = serde_json::from_value(json!({"applicationStatus": [
            {"application": "one", "status": "Healthy", "step": "1", "message": ""},
            {"application": "two", "status": "Waiting", "step": "2", "message": ""},
            {"application": "left", "status": "Waiting", "step": "-1", "message": ""},
        ]}))
        .unwrap();
        set
    }

    #[test]
    fn a_member_of_a_set_is_synced_when_its_step_comes_and_not_by_whoever_reads_this() {
        let options = Options::default();
        let told_of = |name: &str, set: &ApplicationSet, options: &Options| {
            let mut application = Application::default();
            application.metadata.name = name.to_owned();
            let set = OfSet::of(set, options, &application);
            told(&application, Beside { set, ..Beside::default() })
        };
        let rolling = set(json!(1));
        let two = told_of("two", &rolling, &options);
        assert!(
            two.contains("it belongs to ApplicationSet shops, whose rollout syncs it in step 2; `tidegate appset explain shops` says what that waits for"),
            "{two}"
        );
        let new = told_of("new", &rolling, &options);
        assert!(new.contains("when its step comes"), "{new}");
        assert!(!two.contains("`tidegate app sync`") && !new.contains("`tidegate app sync`"), "{two}{new}");
        let left = told_of("left", &rolling, &options);
        assert!(left.contains("no step of which selects it: it is synced when somebody asks"), "{left}");
        for none in [json!(0), json!("0%")] {
            let by_hand = told_of("two", &set(none), &options);
            assert!(by_hand.contains("in step 2 and leaves it to people (maxUpdate)"), "{by_hand}");
        }
        // One that leaves the order to its Applications says nothing of it.
        let off = Options { progressive_syncs: false, ..Options::default() };
        let alone = told_of("two", &rolling, &off);
        assert!(!alone.contains("shops") && alone.contains("`tidegate app sync`"), "{alone}");
        let key = AppKey::of_set(&rolling);
        let beside = Beside { set: Some(OfSet::unasked(&key)), ..Beside::default() };
        let unasked = told(&Application::default(), beside);
        assert!(unasked.contains("`tidegate appset explain shops`"), "{unasked}");
    }
}
