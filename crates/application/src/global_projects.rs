//! What a project takes over from the global projects that are about it.

use tidegate_model::argo::AppProject;

/// A project with the rules of its global projects beside its own, as Argo CD puts them together: repositories, destinations, kinds
/// and sync windows. What is denied anywhere is denied; what is allowed anywhere is allowed otherwise. Everything else is its own.
pub fn inheriting<'g>(project: &AppProject, globals: impl IntoIterator<Item = &'g AppProject>) -> AppProject {
    let mut all = project.clone();
    for global in globals {
        let (spec, more) = (&mut all.spec, &global.spec);
        spec.source_repos.extend_from_slice(&more.source_repos);
        spec.destinations.extend_from_slice(&more.destinations);
        spec.cluster_resource_whitelist.extend_from_slice(&more.cluster_resource_whitelist);
        spec.cluster_resource_blacklist.extend_from_slice(&more.cluster_resource_blacklist);
        spec.namespace_resource_blacklist.extend_from_slice(&more.namespace_resource_blacklist);
        // One that is not said permits all, so it becomes a list only where one of them is.
        if let Some(list) = &more.namespace_resource_whitelist {
            spec.namespace_resource_whitelist.get_or_insert_default().extend_from_slice(list);
        }
        spec.sync_windows.extend_from_slice(&more.sync_windows);
    }
    all
}
