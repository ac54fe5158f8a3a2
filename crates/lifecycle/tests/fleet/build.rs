//! Builders for inputs of the machines.

use std::time::Duration;

use tidegate_lifecycle::fleet::{Attribution, Expression, Labels, Operator};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::{DeployedState, MemberObservation, MemberSpec, Request, Step, Target};
use tidegate_model::{Digest, HealthStatus, OperationId, Timestamp};

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns an operation ID. IDs with higher numbers come later in the log.
pub fn id(number: u128) -> OperationId {
    format!("00000000-0000-7000-8000-{number:012x}").parse().unwrap()
}

pub fn attribution(by: &str) -> Attribution {
    Attribution { by: by.into(), why: "because".into(), at: at(7) }
}

pub fn labels(text: &str) -> Labels {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Parses expressions such as `env in dev,qa` or `env not in dev`, separated by `;`.
pub fn expressions(text: &str) -> Vec<Expression> {
    let one = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (key, operator, values) = match words.as_slice() {
            [key, "in", values] => (key, Operator::In, values),
            [key, "not", "in", values] => (key, Operator::NotIn, values),
            other => panic!("{other:?}"),
        };
        let values = values.split(',').map(str::to_owned).collect();
        Expression { key: (*key).to_owned(), operator, values }
    };
    text.split(';').filter(|text| !text.trim().is_empty()).map(one).collect()
}

pub fn step(selects: &str) -> Step {
    Step { expressions: expressions(selects), ..Step::default() }
}

pub fn target(revision: &str) -> Target {
    Target { revisions: vec![revision.to_owned()], spec: Digest([1; 32]) }
}

pub fn previous_deployment() -> Option<DeployedState> {
    Some(DeployedState { operation: Some(id(1)), target: target("old") })
}

pub fn member(name: &str, of: &str) -> MemberSpec {
    let (name, labels) = (name.to_owned(), labels(of));
    MemberSpec { name, labels, target: target("new"), before: previous_deployment(), done_by: None }
}

pub fn request(steps: Vec<Step>, members: Vec<MemberSpec>) -> Request {
    Request {
        set: "argocd/fleet".into(),
        uid: "uid-1".into(),
        targets: Digest([9; 32]),
        by: "ann".into(),
        steps,
        members,
        options: tidegate_lifecycle::rollout::Options::default(),
    }
}

/// Returns the observation of an Application after its newest operation.
pub fn observation_after(operation: u128, revision: &str, health: HealthStatus) -> MemberObservation {
    MemberObservation {
        operation: Some(id(operation)),
        deployed: Some(target(revision)),
        synced: true,
        health,
        message: String::new(),
    }
}

pub fn busy_error() -> CallError {
    CallError::transient("busy")
}
