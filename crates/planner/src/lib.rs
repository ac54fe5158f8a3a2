//! Pure planning: from manifests and live objects to an ordered [`Plan`](tidegate_model::Plan).
