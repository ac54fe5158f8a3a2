//! Fuzz target for parsing manifests and planning a sync.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{has_fraction, now};
use tidegate_model::{Destination, Discovery, LiveObject, Object, OperationId, SyncRequest};
use tidegate_planner::manifests::{Limits, Target, parse, parse_each};
use tidegate_planner::{PlanInput, plan};
use uuid::Uuid;

fuzz_target!(|input: &[u8]| {
    let (known, terminating, discovery) = (BTreeSet::new(), BTreeSet::new(), Discovery::default());
    let limits = Limits::default();
    let all = parse("a.yaml", input, &limits);
    let (targets, errors) = parse_each("a.yaml", input, &limits);
    assert_eq!(all.is_ok(), errors.is_empty(), "both parsers agree on errors");
    for error in &errors {
        assert!(!error.to_string().is_empty());
    }
    for target in targets.iter().filter(|target| !has_fraction(target.object.as_value())) {
        let written = target.object.as_value().to_string();
        let again = parse("a.json", written.as_bytes(), &limits).unwrap_or_default();
        let again: Vec<&Object> = again.iter().map(|again| &again.object).collect();
        assert_eq!(again, [&target.object], "serialization round-trips");
    }
    let request = SyncRequest::new("shop", "shop", Destination::Simulated);
    let live: Vec<LiveObject> =
        targets.iter().step_by(2).map(|target| LiveObject::pack(target.object.clone())).collect();
    let planned = |targets: &[Target], live: &[LiveObject]| {
        plan(PlanInput {
            operation: OperationId(Uuid::from_u128(1)),
            request: &request,
            started_at: now(),
            targets: targets.to_vec(),
            live,
            inventory: &known,
            unchanged_hooks: &known,
            terminating_namespaces: &terminating,
            discovery: &discovery,
            is_offline: true,
        })
    };
    assert_eq!(planned(&targets, &[]), planned(&targets, &[]), "planning is deterministic");
    planned(&targets, &live);
});
