use std::collections::BTreeSet;

use regex::Regex;
use tidegate_model::argo::{ScmFilter, ScmGenerator};

use super::{SHORT, SHORTER, expression};
use crate::error::Problem;
use crate::names::{beginning, normalize};
use crate::parameters::{ParameterSet, Parameters, of_texts};
use crate::run::{Ran, Run, Spot};
use crate::world::Branch;

/// A set for each branch that filters let pass, in the order of organisation, repository and branch.
pub(crate) fn sets(run: &mut Run<'_>, scm: &ScmGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    let scm = run.filled(scm, spot)?;
    let filters: Vec<Filter> = scm
        .filters
        .iter()
        .map(Filter::new)
        .collect::<Result<_, Problem>>()
        .map_err(|problem| spot.wrong(problem))?;
    let paths: BTreeSet<String> = filters.iter().flat_map(|filter| filter.paths().cloned()).collect();
    let branches = spot.known(run.world.branches(&scm, &paths))?;
    let steps = branches.len().saturating_mul(filters.len());
    run.steps(steps, spot)?;
    let mut chosen: Vec<_> = branches.iter().filter(|branch| passes(&filters, branch)).collect();
    chosen.sort_by(|left, right| order(left).cmp(&order(right)));
    let mut sets = Vec::new();
    for branch in chosen {
        let origin = format!("{}/{} {}", branch.organization, branch.repository, branch.branch);
        let mut parameters = parameters(branch);
        run.add_values(&mut parameters, &scm.values, &origin, spot)?;
        run.add(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}

fn order(branch: &Branch) -> (&str, &str, &str) {
    (&branch.organization, &branch.repository, &branch.branch)
}

/// What lets something pass: all that it says.
struct Filter {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    exist: Vec<String>,
    missing: Vec<String>,
}

impl Filter {
    fn new(filter: &ScmFilter) -> Result<Self, Problem> {
        Ok(Self {
            repository: expression("repositoryMatch", filter.repository_match.as_ref())?,
            label: expression("labelMatch", filter.label_match.as_ref())?,
            branch: expression("branchMatch", filter.branch_match.as_ref())?,
            exist: filter.paths_exist.clone(),
            missing: filter.paths_do_not_exist.clone(),
        })
    }

    fn paths(&self) -> impl Iterator<Item = &String> {
        self.exist.iter().chain(&self.missing)
    }

    /// Whether it says something of branches, and not of repositories alone.
    fn is_of_branches(&self) -> bool {
        self.branch.is_some() || self.paths().next().is_some()
    }

    fn matches(&self, branch: &Branch) -> bool {
        self.repository.as_ref().is_none_or(|wanted| wanted.is_match(&branch.repository))
            && self
                .label
                .as_ref()
                .is_none_or(|wanted| branch.labels.iter().any(|label| wanted.is_match(label)))
            && self.branch.as_ref().is_none_or(|wanted| wanted.is_match(&branch.branch))
            && self.exist.iter().all(|path| branch.paths.contains(path))
            && !self.missing.iter().any(|path| branch.paths.contains(path))
    }
}

/// Whether a filter of each kind that there is lets a branch pass.
fn passes(filters: &[Filter], branch: &Branch) -> bool {
    [false, true].into_iter().all(|of_branches| {
        let mut of_kind = filters.iter().filter(|filter| filter.is_of_branches() == of_branches).peekable();
        of_kind.peek().is_none() || of_kind.any(|filter| filter.matches(branch))
    })
}

fn parameters(branch: &Branch) -> Parameters {
    let fields = [
        ("organization", branch.organization.clone()),
        ("repository", branch.repository.clone()),
        ("repository_id", branch.repository_id.clone()),
        ("url", branch.url.clone()),
        ("branch", branch.branch.clone()),
        ("branchNormalized", normalize(&branch.branch)),
        ("sha", branch.sha.clone()),
        ("short_sha", beginning(&branch.sha, SHORT).to_owned()),
        ("short_sha_7", beginning(&branch.sha, SHORTER).to_owned()),
        ("labels", branch.labels.join(",")),
    ];
    of_texts(fields)
}
