//! Requests to machines, and the events recorded for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tidegate_executor::DurableMachine;
use tidegate_lifecycle::Urgency;
use tidegate_lifecycle::fleet::{Expression, Labels, MaxUpdate, Operator};
use tidegate_lifecycle::rollout::{self, Step, Target};
use tidegate_lifecycle::teardown::{self, Order, Selection};
use tidegate_model::{Digest, OperationId, StreamId};
use tidegate_oplog::{OperationLog, TypedLog as _};
use uuid::Uuid;

/// Name of the ApplicationSet.
pub const APPSET: &str = "argocd/fleet";

/// Returns a stream ID. Stream IDs are numbered separately from a fleet's operations.
pub fn stream_id(number: u128) -> StreamId {
    StreamId(Uuid::from_u128(1_000_000 + number))
}

pub fn target(revision: &str) -> Target {
    Target { revisions: vec![revision.to_owned()], spec: Digest([1; 32]) }
}

fn labels(env: &str) -> Labels {
    Labels::from([("env".to_owned(), env.to_owned())])
}

fn expressions(env: &str) -> Vec<Expression> {
    vec![Expression { key: "env".into(), operator: Operator::In, values: vec![env.into()] }]
}

/// Returns a rollout request for two Applications in each environment. The production Applications are synced
/// one by one, a minute after all others and after a gate has opened.
pub fn rollout() -> rollout::Request {
    let step = |env| Step { expressions: expressions(env), ..Step::default() };
    let last = Step {
        max_update: MaxUpdate::Count(1),
        gates: vec!["soak:1m".into(), "awake".into()],
        deadline: Some(Duration::from_secs(3600)),
        ..step("prod")
    };
    let member = |name: &str, env| rollout::MemberSpec {
        name: name.into(),
        labels: labels(env),
        target: target("new"),
        before: None,
        done_by: None,
    };
    rollout::Request {
        set: APPSET.into(),
        uid: "uid-1".into(),
        targets: Digest([9; 32]),
        by: "ann".into(),
        steps: vec![step("dev"), last],
        members: vec![member("a", "dev"), member("b", "dev"), member("p", "prod"), member("q", "prod")],
        options: rollout::Options::default(),
    }
}

/// Returns a teardown request for Applications in two environments, with production last.
pub fn teardown(of_each: usize) -> teardown::Request {
    let step = |env| Selection { expressions: expressions(env), max_update: MaxUpdate::default() };
    let members = ["dev", "prod"].into_iter().flat_map(|env| {
        (0..of_each).map(move |number| teardown::MemberSpec {
            name: format!("{env}{number:03}"),
            uid: format!("uid-{env}{number}"),
            labels: labels(env),
        })
    });
    teardown::Request {
        set: APPSET.into(),
        uid: "uid-1".into(),
        by: "ann".into(),
        order: Order::Custom { steps: vec![step("dev"), step("prod")] },
        members: members.collect(),
        options: teardown::Options::default(),
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    }
}

/// Returns the essential events of a stream in order, grouped by member. Events of the whole machine have an
/// empty key. Omits times, operation IDs, and repetitions after a crash.
pub fn recorded_events<M: DurableMachine>(
    log: &(impl OperationLog + ?Sized),
    stream: StreamId,
) -> BTreeMap<String, Vec<Value>> {
    let mut lanes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in log.events_as::<M::Event>(stream).unwrap().events {
        if M::urgency(&M::State::default(), &event) != Urgency::Now {
            continue;
        }
        let mut value = serde_json::to_value(&event).unwrap();
        let lane = member(&value).unwrap_or_default();
        strip(&mut value);
        let lane = lanes.entry(lane).or_default();
        if lane.last() != Some(&value) {
            lane.push(value);
        }
    }
    lanes
}

/// Returns the operations in a rollout's events.
pub fn named_operations(log: &(impl OperationLog + ?Sized), stream: StreamId) -> BTreeSet<OperationId> {
    let events = log.events_as::<rollout::Event>(stream).unwrap().events;
    let named = events.into_iter().filter_map(|event| match event {
        rollout::Event::OperationAssigned { operation, .. } => Some(operation),
        _ => None,
    });
    named.collect()
}

fn member(event: &Value) -> Option<String> {
    let (_, fields) = event.as_object()?.iter().next()?;
    Some(fields.get("member")?.as_str()?.to_owned())
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "at" && name != "operation");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
