use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::argo::MergeGenerator;

use crate::error::{Place, Problem};
use crate::parameters::{ParameterSet, Parameters, fill};
use crate::run::{Ran, Run, Spot, Stop};

/// The sets of the first generator, changed by those of the others that have the same keys. What only others have is left
/// out.
pub(crate) fn sets(run: &mut Run<'_>, merge: &MergeGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    if merge.generators.len() < 2 {
        return Err(spot.wrong(Problem::Merge { count: merge.generators.len() }));
    }
    let keys: BTreeSet<&String> = merge.merge_keys.iter().collect();
    if keys.is_empty() {
        return Err(spot.wrong(Problem::MergeKeys));
    }
    let mut all = Vec::new();
    let mut is_unknown = false;
    for (index, entry) in merge.generators.iter().enumerate() {
        match run.nested(index, entry, spot.outer, spot) {
            // The questions of all of them are asked in the same round.
            Err(Stop::Unknown) => is_unknown = true,
            sets => all.push(told_apart(sets?, &keys, index, spot)?),
        }
    }
    if is_unknown {
        return Err(Stop::Unknown);
    }
    let mut all = all.into_iter();
    let mut base = all.next().unwrap_or_default();
    for others in all {
        for (key, (_, other)) in others {
            if let Some((_, set)) = base.get_mut(&key) {
                set.parameters = changed(std::mem::take(&mut set.parameters), other.parameters, run.of_go());
            }
        }
    }
    let mut in_order: Vec<_> = base.into_values().collect();
    in_order.sort_by_key(|(position, _)| *position);
    let mut sets = Vec::new();
    for (_, set) in in_order {
        run.add(&mut sets, set.parameters, set.origin, spot)?;
    }
    Ok(sets)
}

/// The sets by the values of their keys, with their positions.
fn told_apart(
    sets: Vec<ParameterSet>,
    keys: &BTreeSet<&String>,
    index: usize,
    spot: Spot<'_>,
) -> Ran<BTreeMap<String, (usize, ParameterSet)>> {
    let mut told_apart = BTreeMap::new();
    for (position, set) in sets.into_iter().enumerate() {
        let value = |key: &&String| set.parameters.get(*key).cloned().unwrap_or_default();
        let values: Parameters = keys.iter().map(|key| ((*key).clone(), value(key))).collect();
        let key = Value::Object(values).to_string();
        if told_apart.contains_key(&key) {
            let place = Place::of(&format!("{}.generators[{index}]", spot.place)).element(set.origin);
            return Err(place.wrong(Problem::DuplicateKey { key }).into());
        }
        told_apart.insert(key, (position, set));
    }
    Ok(told_apart)
}

/// A set with the parameters of another one in front of its own.
fn changed(mut base: Parameters, mut other: Parameters, of_go: bool) -> Parameters {
    if of_go {
        fill(&mut other, &base);
        return other;
    }
    base.extend(other);
    base
}
