//! Filter that avoids requests for branches and paths that the generator's filters can't accept.
//!
//! The generator applies its own filters later, so this one may let too much through, but must never reject a
//! branch that the generator accepts.

use std::collections::BTreeSet;

use regex::Regex;
use tidegate_model::argo::ScmFilter;

use crate::hosts::Repository;

/// Parts of a generator's filters that can save requests.
pub(crate) struct EarlyFilter(Vec<RepositoryFilter>);

struct RepositoryFilter {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    paths: BTreeSet<String>,
    filters_branches: bool,
}

impl RepositoryFilter {
    fn new(filter: &ScmFilter) -> Self {
        // Invalid expressions were rejected earlier; ignore them here.
        let expression = |text: &Option<String>| text.as_ref().and_then(|text| Regex::new(text).ok());
        let paths: BTreeSet<_> =
            filter.paths_exist.iter().chain(&filter.paths_do_not_exist).cloned().collect();
        Self {
            repository: expression(&filter.repository_match),
            label: expression(&filter.label_match),
            branch: expression(&filter.branch_match),
            filters_branches: filter.branch_match.is_some() || !paths.is_empty(),
            paths,
        }
    }

    fn can_match(&self, repository: &Repository, branch: Option<&str>) -> bool {
        let has_label = |wanted: &Regex| repository.labels.iter().any(|label| wanted.is_match(label));
        self.repository.as_ref().is_none_or(|wanted| wanted.is_match(&repository.name))
            && self.label.as_ref().is_none_or(has_label)
            && self.branch.as_ref().zip(branch).is_none_or(|(wanted, branch)| wanted.is_match(branch))
    }
}

impl EarlyFilter {
    pub fn new(filters: &[ScmFilter]) -> Self {
        Self(filters.iter().map(RepositoryFilter::new).collect())
    }

    /// Returns true if a repository or its branch may pass the generator's filters: at least one repository
    /// filter and at least one branch filter must match, if there are any.
    pub fn can_pass(&self, repository: &Repository, branch: Option<&str>) -> bool {
        [false, true].into_iter().all(|of_branches| {
            let mut of_kind = self.0.iter().filter(|one| one.filters_branches == of_branches).peekable();
            of_kind.peek().is_none() || of_kind.any(|one| one.can_match(repository, branch))
        })
    }

    /// Returns the paths to check for in a branch.
    pub fn paths_to_check<'p>(
        &self,
        repository: &Repository,
        branch: &str,
        asked: &'p BTreeSet<String>,
    ) -> Vec<&'p String> {
        let counting: Vec<_> = self.0.iter().filter(|one| one.can_match(repository, Some(branch))).collect();
        asked.iter().filter(|path| counting.iter().any(|one| one.paths.contains(*path))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(repository: &str, label: &str, branch: &str, paths: &[&str]) -> ScmFilter {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ScmFilter {
            repository_match: said(repository),
            label_match: said(label),
            branch_match: said(branch),
            paths_exist: paths.iter().map(|path| (*path).to_owned()).collect(),
            ..ScmFilter::default()
        }
    }

    #[test]
    fn excluded_branches_and_paths_are_not_requested() {
        let shop = Repository {
            name: "shop".to_owned(),
            labels: vec!["deploy".to_owned()],
            ..Repository::default()
        };
        for (filters, branch, expected) in [
            (vec![], None, true),
            (vec![filter("^shop$", "", "", &[])], None, true),
            (vec![filter("^api$", "", "", &[])], None, false),
            (vec![filter("", "depl", "", &[])], None, true),
            (vec![filter("", "other", "", &[])], None, false),
            (vec![filter("^api$", "", "", &[]), filter("^shop$", "", "", &[])], None, true),
            // At this point, the branches aren't known yet.
            (vec![filter("", "", "^main$", &[])], None, true),
            (vec![filter("", "", "^main$", &[])], Some("main"), true),
            (vec![filter("", "", "^main$", &[])], Some("dev"), false),
            // Both the filter for repositories and the filter for branches must match.
            (vec![filter("^shop$", "", "", &[]), filter("", "", "^main$", &[])], Some("dev"), false),
            (vec![filter("^api$", "", "", &[]), filter("", "", "^main$", &[])], Some("main"), false),
            (vec![filter("(", "", "", &[])], None, true),
        ] {
            assert_eq!(
                EarlyFilter::new(&filters).can_pass(&shop, branch),
                expected,
                "{filters:?} {branch:?}"
            );
        }
        let asked = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let filter = EarlyFilter::new(&[filter("shop", "", "", &["a"]), filter("api", "", "", &["b"])]);
        assert_eq!(filter.paths_to_check(&shop, "main", &asked), ["a"]);
    }
}
