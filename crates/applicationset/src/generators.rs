//! Generators of an ApplicationSet, including nested generators.

use tidegate_model::argo::{ApplicationSetGenerator, Generator};

/// Returns true if any of the generators matches.
pub(crate) fn has_generator(
    entries: &[ApplicationSetGenerator],
    is_meant: &dyn Fn(&Generator<'_>) -> bool,
) -> bool {
    entries.iter().flat_map(ApplicationSetGenerator::generators).any(|generator| match generator {
        Generator::Matrix(matrix) => has_generator(&matrix.generators, is_meant),
        Generator::Merge(merge) => has_generator(&merge.generators, is_meant),
        other => is_meant(&other),
    })
}
