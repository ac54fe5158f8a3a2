use regex::Regex;
use serde_json::json;
use tidegate_model::argo::{PullRequestFilter, PullRequestGenerator};

use super::{SEVEN_CHARACTER_COMMIT_LENGTH, SHORT_COMMIT_LENGTH, compile_filter};
use crate::SkippedGenerator;
use crate::error::{ErrorLocation, Problem};
use crate::inputs::PullRequest;
use crate::name_rules::{SLUG_BYTES, slug, truncate};
use crate::parameters::{ParameterSet, Parameters, from_texts};
use crate::run::{GenerateResult, GenerateRun, GeneratorPosition};

/// Returns a parameter set for each pull request that the filters accept, ordered by number.
pub(crate) fn pull_request_parameters(
    run: &mut GenerateRun<'_>,
    generator: &PullRequestGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let generator = run.render_part(generator, spot)?;
    let filters: Vec<PullRequestMatcher> = generator
        .filters
        .iter()
        .map(PullRequestMatcher::new)
        .collect::<Result<_, Problem>>()
        .map_err(|problem| spot.error(problem))?;
    let reply = match run.inputs.pull_requests(&generator) {
        Err(gone) if gone.is_missing && generator.continue_on_repo_not_found_error => {
            run.skipped.push(SkippedGenerator {
                place: ErrorLocation::in_generator(spot.path),
                reason: gone.reason,
            });
            return Ok(Vec::new());
        }
        reply => reply,
    };
    let requests = spot.resolve_reply(reply)?;
    let steps = requests.len().saturating_mul(filters.len());
    run.take_steps(steps, spot)?;
    let passes =
        |request: &&PullRequest| filters.is_empty() || filters.iter().any(|filter| filter.matches(request));
    let mut chosen: Vec<_> = requests.iter().filter(passes).collect();
    chosen.sort_by_key(|request| request.number);
    let mut sets = Vec::new();
    for request in chosen {
        let origin = format!("pull request {}", request.number);
        let mut parameters = parameters_of(request, run.uses_go_templates());
        run.add_values(&mut parameters, &generator.values, &origin, spot)?;
        run.add_parameter_set(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}

/// A filter for pull requests. All its conditions must be met.
struct PullRequestMatcher {
    branch: Option<Regex>,
    target_branch: Option<Regex>,
    title: Option<Regex>,
}

impl PullRequestMatcher {
    fn new(filter: &PullRequestFilter) -> Result<Self, Problem> {
        Ok(Self {
            branch: compile_filter("branchMatch", filter.branch_match.as_ref())?,
            target_branch: compile_filter("targetBranchMatch", filter.target_branch_match.as_ref())?,
            title: compile_filter("titleMatch", filter.title_match.as_ref())?,
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

fn parameters_of(request: &PullRequest, of_go: bool) -> Parameters {
    let fields = [
        ("number", request.number.to_string()),
        ("title", request.title.clone()),
        ("branch", request.branch.clone()),
        ("branch_slug", slug(SLUG_BYTES, true, &request.branch)),
        ("target_branch", request.target_branch.clone()),
        ("target_branch_slug", slug(SLUG_BYTES, true, &request.target_branch)),
        ("head_sha", request.head_sha.clone()),
        ("head_short_sha", truncate(&request.head_sha, SHORT_COMMIT_LENGTH).to_owned()),
        ("head_short_sha_7", truncate(&request.head_sha, SEVEN_CHARACTER_COMMIT_LENGTH).to_owned()),
        ("author", request.author.clone()),
    ];
    let mut parameters = from_texts(fields);
    if of_go {
        parameters.insert("labels".to_owned(), json!(request.labels));
    }
    parameters
}
