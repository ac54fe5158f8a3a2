use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::argo::MergeGenerator;

use crate::error::{ErrorLocation, Problem};
use crate::parameters::{ParameterSet, Parameters, add_missing};
use crate::run::{GenerateResult, GenerateRun, GenerateStop, GeneratorPosition};

/// Returns the first generator's parameter sets, overridden by the other generators' sets with the same merge
/// keys. Sets without a counterpart in the first generator are dropped.
pub(crate) fn merge_parameters(
    run: &mut GenerateRun<'_>,
    merge: &MergeGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    if merge.generators.len() < 2 {
        return Err(spot.error(Problem::Merge { count: merge.generators.len() }));
    }
    let keys: BTreeSet<&String> = merge.merge_keys.iter().collect();
    if keys.is_empty() {
        return Err(spot.error(Problem::MergeKeys));
    }
    let mut all = Vec::new();
    let mut is_unknown = false;
    for (index, entry) in merge.generators.iter().enumerate() {
        match run.nested_parameter_sets(index, entry, spot.outer_parameters, spot) {
            // Continue, so that the data for all generators is requested in the same run.
            Err(GenerateStop::NotAvailableYet) => is_unknown = true,
            sets => all.push(index_by_keys(sets?, &keys, index, spot)?),
        }
    }
    if is_unknown {
        return Err(GenerateStop::NotAvailableYet);
    }
    let mut all = all.into_iter();
    let mut base = all.next().unwrap_or_default();
    for others in all {
        for (key, (_, other)) in others {
            if let Some((_, set)) = base.get_mut(&key) {
                set.parameters = override_parameters(
                    std::mem::take(&mut set.parameters),
                    other.parameters,
                    run.uses_go_templates(),
                );
            }
        }
    }
    let mut in_order: Vec<_> = base.into_values().collect();
    in_order.sort_by_key(|(position, _)| *position);
    let mut sets = Vec::new();
    for (_, set) in in_order {
        run.add_parameter_set(&mut sets, set.parameters, set.origin, spot)?;
    }
    Ok(sets)
}

/// Indexes parameter sets by the values of their merge keys, keeping their positions.
fn index_by_keys(
    sets: Vec<ParameterSet>,
    keys: &BTreeSet<&String>,
    index: usize,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<BTreeMap<String, (usize, ParameterSet)>> {
    let mut told_apart = BTreeMap::new();
    for (position, set) in sets.into_iter().enumerate() {
        let value = |key: &&String| set.parameters.get(*key).cloned().unwrap_or_default();
        let values: Parameters = keys.iter().map(|key| ((*key).clone(), value(key))).collect();
        let key = Value::Object(values).to_string();
        if told_apart.contains_key(&key) {
            let place = ErrorLocation::in_generator(&format!("{}.generators[{index}]", spot.path))
                .with_element(set.origin);
            return Err(place.error(Problem::DuplicateKey { key }).into());
        }
        told_apart.insert(key, (position, set));
    }
    Ok(told_apart)
}

/// Overrides parameters with those of another set. With Go templates, nested objects are merged, too.
fn override_parameters(mut base: Parameters, mut other: Parameters, of_go: bool) -> Parameters {
    if of_go {
        add_missing(&mut other, &base);
        return other;
    }
    base.extend(other);
    base
}
