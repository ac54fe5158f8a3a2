use std::collections::BTreeSet;

use regex::Regex;
use tidegate_model::argo::{ScmFilter, ScmGenerator};

use super::{SEVEN_CHARACTER_COMMIT_LENGTH, SHORT_COMMIT_LENGTH, compile_filter};
use crate::error::Problem;
use crate::inputs::Branch;
use crate::name_rules::{normalize, truncate};
use crate::parameters::{ParameterSet, Parameters, from_texts};
use crate::run::{GenerateResult, GenerateRun, GeneratorPosition};

/// Returns a parameter set for each branch that passes the filters, ordered by organization, repository and
/// branch.
pub(crate) fn scm_parameters(
    run: &mut GenerateRun<'_>,
    scm: &ScmGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let scm = run.render_part(scm, spot)?;
    let filters: Vec<BranchMatcher> = scm
        .filters
        .iter()
        .map(BranchMatcher::new)
        .collect::<Result<_, Problem>>()
        .map_err(|problem| spot.error(problem))?;
    let paths: BTreeSet<String> = filters.iter().flat_map(|filter| filter.paths().cloned()).collect();
    let branches = spot.resolve_reply(run.inputs.branches(&scm, &paths))?;
    let steps = branches.len().saturating_mul(filters.len());
    run.take_steps(steps, spot)?;
    let mut chosen: Vec<_> = branches.iter().filter(|branch| passes_filters(&filters, branch)).collect();
    chosen.sort_by(|left, right| branch_sort_key(left).cmp(&branch_sort_key(right)));
    let mut sets = Vec::new();
    for branch in chosen {
        let origin = format!("{}/{} {}", branch.organization, branch.repository, branch.branch);
        let mut parameters = parameters_of(branch);
        run.add_values(&mut parameters, &scm.values, &origin, spot)?;
        run.add_parameter_set(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}

fn branch_sort_key(branch: &Branch) -> (&str, &str, &str) {
    (&branch.organization, &branch.repository, &branch.branch)
}

/// A filter for branches. All its conditions must be met.
struct BranchMatcher {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    exist: Vec<String>,
    missing: Vec<String>,
}

impl BranchMatcher {
    fn new(filter: &ScmFilter) -> Result<Self, Problem> {
        Ok(Self {
            repository: compile_filter("repositoryMatch", filter.repository_match.as_ref())?,
            label: compile_filter("labelMatch", filter.label_match.as_ref())?,
            branch: compile_filter("branchMatch", filter.branch_match.as_ref())?,
            exist: filter.paths_exist.clone(),
            missing: filter.paths_do_not_exist.clone(),
        })
    }

    fn paths(&self) -> impl Iterator<Item = &String> {
        self.exist.iter().chain(&self.missing)
    }

    /// Returns true if the filter has conditions on branches, with or without conditions on repositories.
    fn filters_branches(&self) -> bool {
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

/// Returns true if a branch passes the filters: at least one repository filter and at least one branch filter
/// must match, if there are any.
fn passes_filters(filters: &[BranchMatcher], branch: &Branch) -> bool {
    [false, true].into_iter().all(|of_branches| {
        let mut of_kind = filters.iter().filter(|filter| filter.filters_branches() == of_branches).peekable();
        of_kind.peek().is_none() || of_kind.any(|filter| filter.matches(branch))
    })
}

fn parameters_of(branch: &Branch) -> Parameters {
    let fields = [
        ("organization", branch.organization.clone()),
        ("repository", branch.repository.clone()),
        ("repository_id", branch.repository_id.clone()),
        ("url", branch.url.clone()),
        ("branch", branch.branch.clone()),
        ("branchNormalized", normalize(&branch.branch)),
        ("sha", branch.sha.clone()),
        ("short_sha", truncate(&branch.sha, SHORT_COMMIT_LENGTH).to_owned()),
        ("short_sha_7", truncate(&branch.sha, SEVEN_CHARACTER_COMMIT_LENGTH).to_owned()),
        ("labels", branch.labels.join(",")),
    ];
    from_texts(fields)
}
