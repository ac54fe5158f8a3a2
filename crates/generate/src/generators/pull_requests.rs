use regex::Regex;
use serde_json::json;
use tidegate_model::argo::{PullRequestFilter, PullRequestGenerator};

use super::{SHORT, SHORTER, expression};
use crate::Passed;
use crate::error::{Place, Problem};
use crate::names::{SLUG_BYTES, beginning, slug};
use crate::parameters::{ParameterSet, Parameters, of_texts};
use crate::run::{Ran, Run, Spot};
use crate::world::PullRequest;

/// A set for each pull request that filters let pass, in the order of their numbers.
pub(crate) fn sets(
    run: &mut Run<'_>,
    generator: &PullRequestGenerator,
    spot: Spot<'_>,
) -> Ran<Vec<ParameterSet>> {
    let generator = run.filled(generator, spot)?;
    let filters: Vec<Filter> = generator
        .filters
        .iter()
        .map(Filter::new)
        .collect::<Result<_, Problem>>()
        .map_err(|problem| spot.wrong(problem))?;
    let reply = match run.world.pull_requests(&generator) {
        Err(gone) if gone.is_missing && generator.continue_on_repo_not_found_error => {
            run.passed.push(Passed { place: Place::of(spot.place), reason: gone.reason });
            return Ok(Vec::new());
        }
        reply => reply,
    };
    let requests = spot.known(reply)?;
    let steps = requests.len().saturating_mul(filters.len());
    run.steps(steps, spot)?;
    let passes =
        |request: &&PullRequest| filters.is_empty() || filters.iter().any(|filter| filter.matches(request));
    let mut chosen: Vec<_> = requests.iter().filter(passes).collect();
    chosen.sort_by_key(|request| request.number);
    let mut sets = Vec::new();
    for request in chosen {
        let origin = format!("pull request {}", request.number);
        let mut parameters = parameters(request, run.of_go());
        run.add_values(&mut parameters, &generator.values, &origin, spot)?;
        run.add(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}

/// What lets a pull request pass: all that it says.
struct Filter {
    branch: Option<Regex>,
    target_branch: Option<Regex>,
    title: Option<Regex>,
}

impl Filter {
    fn new(filter: &PullRequestFilter) -> Result<Self, Problem> {
        Ok(Self {
            branch: expression("branchMatch", filter.branch_match.as_ref())?,
            target_branch: expression("targetBranchMatch", filter.target_branch_match.as_ref())?,
            title: expression("titleMatch", filter.title_match.as_ref())?,
        })
    }

    fn matches(&self, request: &PullRequest) -> bool {
        let fits =
            |wanted: &Option<Regex>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted.is_match(text));
        fits(&self.branch, &request.branch)
            && fits(&self.target_branch, &request.target_branch)
            && fits(&self.title, &request.title)
    }
}

fn parameters(request: &PullRequest, of_go: bool) -> Parameters {
    let fields = [
        ("number", request.number.to_string()),
        ("title", request.title.clone()),
        ("branch", request.branch.clone()),
        ("branch_slug", slug(SLUG_BYTES, true, &request.branch)),
        ("target_branch", request.target_branch.clone()),
        ("target_branch_slug", slug(SLUG_BYTES, true, &request.target_branch)),
        ("head_sha", request.head_sha.clone()),
        ("head_short_sha", beginning(&request.head_sha, SHORT).to_owned()),
        ("head_short_sha_7", beginning(&request.head_sha, SHORTER).to_owned()),
        ("author", request.author.clone()),
    ];
    let mut parameters = of_texts(fields);
    if of_go {
        parameters.insert("labels".to_owned(), json!(request.labels));
    }
    parameters
}
