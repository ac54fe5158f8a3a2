//! Which questions are worth asking: what no filter can let pass is not asked for its branches or paths.
//!
//! Whoever generates filters again. This lets too much pass rather than too little.

use std::collections::BTreeSet;

use regex::Regex;
use tidegate_model::argo::ScmFilter;

use crate::hosts::Repository;

/// The filters of a generator, as far as they save questions.
pub(crate) struct Sieve(Vec<Filter>);

struct Filter {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    paths: BTreeSet<String>,
    is_of_branches: bool,
}

impl Filter {
    fn new(filter: &ScmFilter) -> Self {
        // What is no expression was refused before.
        let expression = |text: &Option<String>| text.as_ref().and_then(|text| Regex::new(text).ok());
        let paths: BTreeSet<_> =
            filter.paths_exist.iter().chain(&filter.paths_do_not_exist).cloned().collect();
        Self {
            repository: expression(&filter.repository_match),
            label: expression(&filter.label_match),
            branch: expression(&filter.branch_match),
            is_of_branches: filter.branch_match.is_some() || !paths.is_empty(),
            paths,
        }
    }

    fn may_match(&self, repository: &Repository, branch: Option<&str>) -> bool {
        let has_label = |wanted: &Regex| repository.labels.iter().any(|label| wanted.is_match(label));
        self.repository.as_ref().is_none_or(|wanted| wanted.is_match(&repository.name))
            && self.label.as_ref().is_none_or(has_label)
            && self.branch.as_ref().zip(branch).is_none_or(|(wanted, branch)| wanted.is_match(branch))
    }
}

impl Sieve {
    pub fn new(filters: &[ScmFilter]) -> Self {
        Self(filters.iter().map(Filter::new).collect())
    }

    /// Whether a repository, and a branch of it, may pass: one filter of each kind that there is has to let it.
    pub fn may_pass(&self, repository: &Repository, branch: Option<&str>) -> bool {
        [false, true].into_iter().all(|of_branches| {
            let mut of_kind = self.0.iter().filter(|one| one.is_of_branches == of_branches).peekable();
            of_kind.peek().is_none() || of_kind.any(|one| one.may_match(repository, branch))
        })
    }

    /// The paths that count for a branch, of those that are asked for.
    pub fn paths<'p>(
        &self,
        repository: &Repository,
        branch: &str,
        asked: &'p BTreeSet<String>,
    ) -> Vec<&'p String> {
        let counting: Vec<_> = self.0.iter().filter(|one| one.may_match(repository, Some(branch))).collect();
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
    fn nobody_is_asked_about_what_cannot_pass() {
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
            // Which branches there are is not known yet.
            (vec![filter("", "", "^main$", &[])], None, true),
            (vec![filter("", "", "^main$", &[])], Some("main"), true),
            (vec![filter("", "", "^main$", &[])], Some("dev"), false),
            // One of each kind.
            (vec![filter("^shop$", "", "", &[]), filter("", "", "^main$", &[])], Some("dev"), false),
            (vec![filter("^api$", "", "", &[]), filter("", "", "^main$", &[])], Some("main"), false),
            (vec![filter("(", "", "", &[])], None, true),
        ] {
            assert_eq!(Sieve::new(&filters).may_pass(&shop, branch), expected, "{filters:?} {branch:?}");
        }
        let asked = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let sieve = Sieve::new(&[filter("shop", "", "", &["a"]), filter("api", "", "", &["b"])]);
        assert_eq!(sieve.paths(&shop, "main", &asked), ["a"]);
    }
}
