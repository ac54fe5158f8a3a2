//! Rules that projects inherit from global projects.

use tidegate_model::argo::AppProject;

/// Merges the rules of a project's global projects into it, as in Argo CD: repositories, destinations, kinds
/// and sync windows. A denial by any project takes precedence; otherwise, permission from any of them is
/// enough. All other fields are the project's own.
pub fn with_global_rules<'g>(
    project: &AppProject,
    globals: impl IntoIterator<Item = &'g AppProject>,
) -> AppProject {
    let mut all = project.clone();
    for global in globals {
        let (spec, more) = (&mut all.spec, &global.spec);
        spec.source_repos.extend_from_slice(&more.source_repos);
        spec.destinations.extend_from_slice(&more.destinations);
        spec.cluster_resource_whitelist.extend_from_slice(&more.cluster_resource_whitelist);
        spec.cluster_resource_blacklist.extend_from_slice(&more.cluster_resource_blacklist);
        spec.namespace_resource_blacklist.extend_from_slice(&more.namespace_resource_blacklist);
        // A missing list permits everything, so only create it if a global project has one.
        if let Some(list) = &more.namespace_resource_whitelist {
            spec.namespace_resource_whitelist.get_or_insert_default().extend_from_slice(list);
        }
        spec.sync_windows.extend_from_slice(&more.sync_windows);
    }
    all
}
