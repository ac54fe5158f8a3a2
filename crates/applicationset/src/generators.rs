//! The generators of a set, those within others included.

use tidegate_model::argo::{ApplicationSetGenerator, Generator};

/// Whether one of them is meant.
pub(crate) fn any(entries: &[ApplicationSetGenerator], is_meant: &dyn Fn(&Generator<'_>) -> bool) -> bool {
    entries.iter().flat_map(ApplicationSetGenerator::generators).any(|generator| match generator {
        Generator::Matrix(matrix) => any(&matrix.generators, is_meant),
        Generator::Merge(merge) => any(&merge.generators, is_meant),
        other => is_meant(&other),
    })
}
