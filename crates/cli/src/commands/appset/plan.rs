//! `tidegate appset plan`: shows the order in which the Applications of ApplicationSets in files would be
//! synced and deleted, and each Application's new revision.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate_applicationset::change_preview::{AppSetPreview, preview_appset};
use tidegate_applicationset::changes::AppSetOutput;
use tidegate_applicationset::deletion_order::deletion_order;
use tidegate_applicationset::preview::{self, DeletionPreview};
use tidegate_applicationset::rollout::{
    KnownMember, RolloutOptions, TargetIdentities, qualified_name, rollout_request,
};
use tidegate_applicationset::strategy_problems;
use tidegate_applicationset::sync_policy::{AppSetRuleOptions, is_progressive};
use tidegate_appset_controller::to_appset_output;
use tidegate_daemon::application_access::{AppSetListing, ApplicationListing};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::{concurrency_group, is_built_in_gate};
use tidegate_lifecycle::rollout::{MemberView, Options as Cases, RolloutView};
use tidegate_lifecycle::teardown::OrderKind;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationSource};
use tidegate_stores::applications::MANAGED_LABEL;

use super::client;
use super::files::AppSetFiles;
use crate::args::{AppSetPlanArgs, ServiceArgs};
use crate::commands::app::service_client::ServiceClient;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::Printer;
use crate::output::application_set::display_name;
use crate::output::appset_plan::{self, AppSetPlan, DeletionPlan, PlannedApplication, Removal, RolloutPlan};

/// Revision of a source that doesn't specify one.
const HEAD: &str = "HEAD";

pub async fn run(args: &AppSetPlanArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let service_state =
        if args.compare { Some(ServiceState::load(&args.service, printer).await?) } else { None };
    // Block in place, because reading repositories is synchronous.
    tokio::task::block_in_place(|| plan_files(args, service_state.as_ref(), printer))
}

fn plan_files(
    args: &AppSetPlanArgs,
    service_state: Option<&ServiceState>,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let gates = DefinedGates::read(args.gates.as_deref())?;
    let options = service_state.map(|service_state| service_state.options.clone()).unwrap_or_default();
    let mut files = AppSetFiles::read(&args.files, &args.generators, &options, printer)?;
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for (set, base) in files.appsets.clone() {
        let (generated, refused) = files.generate_applications(&set, &base, printer)?;
        problems.extend(refused);
        let generated = to_appset_output(generated);
        let mut revisions = RevisionResolver { files: &files, base: &base, cache: BTreeMap::new(), printer };
        let wrong = match plan_appset(&set, &generated, service_state, &options, &mut revisions) {
            Ok(plan) => {
                let problems = plan.removal.iter().flat_map(|removal| &removal.problems);
                problems.for_each(|problem| {
                    printer.warn(&format!("ApplicationSet {}: {problem}", set.metadata.name))
                });
                let wrong = gates.find_problems(&plan);
                plans.push(plan);
                wrong
            }
            Err(wrong) => wrong,
        };
        let wrong = wrong.into_iter().map(|wrong| format!("ApplicationSet {}: {wrong}", set.metadata.name));
        problems.extend(wrong);
    }
    // Show the plans that could be created. The exit code shows that some are missing.
    if !plans.is_empty() {
        appset_plan::print(&plans, args.output, printer)?;
    }
    if problems.is_empty() {
        Ok(CommandOutcome::Done)
    } else {
        Err(CliError::Generate { problems, is_input: true })
    }
}

/// Names of the defined gates. `None` without a gates file.
struct DefinedGates(Option<BTreeSet<String>>);

impl DefinedGates {
    fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self(None)) };
        Ok(Self(Some(input::load_definitions(Some(path))?.names().collect())))
    }

    /// Describes each gate in the plan that would never open.
    fn find_problems(&self, plan: &AppSetPlan) -> Vec<String> {
        let steps = plan.rollout.iter().flat_map(|rollout| &rollout.steps);
        let gates = steps.flat_map(|step| step.terms.gates.iter().map(move |gate| (step.step, gate)));
        gates
            .filter_map(|(step, gate)| Some(format!("step {step} {}", self.find_gate_problem(gate)?)))
            .collect()
    }

    fn find_gate_problem(&self, gate: &str) -> Option<String> {
        if concurrency_group(gate).is_some() {
            return Some(format!(
                "would wait forever for gate {gate}: concurrency gates limit operations and cannot be used for steps"
            ));
        }
        let known = self.0.as_ref().filter(|known| !is_built_in_gate(gate) && !known.contains(gate))?;
        let mut usable: Vec<&str> = known.iter().map(String::as_str).collect();
        usable.retain(|gate| concurrency_group(gate).is_none());
        let defined = if usable.is_empty() { "none".to_owned() } else { usable.join(", ") };
        Some(format!(
            "would wait forever for gate {gate}, which is not defined; the --gates file defines {defined}"
        ))
    }
}

/// Returns an ApplicationSet's plan, or all of its problems.
fn plan_appset(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    service_state: Option<&ServiceState>,
    options: &AppSetRuleOptions,
    revisions: &mut RevisionResolver<'_>,
) -> Result<AppSetPlan, Vec<String>> {
    let problems = strategy_problems(set, options);
    if !problems.is_empty() {
        return Err(problems);
    }
    let applications: Vec<Application> = generated.applications.values().cloned().collect();
    let applications = applications.as_slice();
    let requested_revision: BTreeMap<&str, Vec<String>> =
        applications.iter().map(|one| (one.metadata.name.as_str(), target_revisions(one))).collect();
    let targets: BTreeMap<&str, Vec<ResolvedRevision>> =
        applications.iter().map(|one| (one.metadata.name.as_str(), revisions.resolve_all(one))).collect();
    let found: BTreeMap<&str, Vec<String>> = targets
        .iter()
        .map(|(name, all)| (*name, all.iter().map(ResolvedRevision::display_text).collect()))
        .collect();
    let known: BTreeMap<&str, Vec<String>> = targets
        .iter()
        .filter_map(|(name, all)| Some((*name, ResolvedRevision::all_resolved(all)?)))
        .collect();
    let foreseen = service_state.map(|service_state| service_state.preview_changes(set, generated, &known));
    let rollout = build_rollout(set, applications, &found, options);
    let deletion = build_deletion(set, applications, options);
    let removal = foreseen.as_ref().map(|foreseen| build_removal(set, foreseen, options));
    let removal = removal.transpose().map_err(|wrong| vec![wrong])?;
    let (rollout, deletion) = match (rollout, deletion) {
        (Ok(rollout), Ok(deletion)) => (rollout, deletion),
        (rollout, deletion) => return Err([rollout.err(), deletion.err()].into_iter().flatten().collect()),
    };
    let place: BTreeMap<&str, &MemberView> = rollout
        .iter()
        .flat_map(|(rollout, _)| &rollout.members)
        .map(|member| (member.application.as_str(), member))
        .collect();
    let members = found.into_iter().map(|(name, revisions)| PlannedApplication {
        name: name.to_owned(),
        step: place.get(name).and_then(|member| member.step.parse().ok()),
        also: place.get(name).map(|member| member.also.clone()).unwrap_or_default(),
        revisions,
        target_revisions: requested_revision.get(name).cloned().unwrap_or_default(),
        change: foreseen.as_ref().and_then(|foreseen| foreseen.members.get(name).cloned()),
        is_unresolved: !known.contains_key(name),
    });
    Ok(AppSetPlan {
        application_set: display_name(set),
        applications: members.collect(),
        rollout: rollout.as_ref().map(|(rollout, cases)| RolloutPlan::from_view(rollout, *cases)),
        removal,
        deletion: DeletionPlan::from_preview(&deletion, order_kind(set)),
    })
}

/// Returns the initial state of the progressive sync, or `None` if the ApplicationSet has none.
fn build_rollout(
    set: &ApplicationSet,
    applications: &[Application],
    revisions: &BTreeMap<&str, Vec<String>>,
    options: &AppSetRuleOptions,
) -> Result<Option<(RolloutView, RolloutOptions)>, String> {
    if !is_progressive(set, options) {
        return Ok(None);
    }
    let targets = TargetIdentities::from_appset(set)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let standing = revisions.iter().map(|(name, revisions)| {
        ((*name).to_owned(), KnownMember { revisions: revisions.clone(), ..KnownMember::default() })
    });
    let standing = standing.collect();
    let request = rollout_request(set, &targets, applications, &standing, Cases::default());
    let request = request.map_err(|invalid| invalid.to_string())?;
    let cases = RolloutOptions::from_appset(set).map_err(|invalid| invalid.to_string())?;
    let view = preview::preview_rollout(request, SystemClock.now()).map_err(|refused| refused.to_string())?;
    Ok(Some((view, cases)))
}

/// Returns the plan for deleting all Applications of an ApplicationSet.
pub fn build_deletion(
    set: &ApplicationSet,
    applications: &[Application],
    options: &AppSetRuleOptions,
) -> Result<DeletionPreview, String> {
    preview::preview_deletion(set, applications, options, SystemClock.now())
        .map_err(|refused| refused.to_string())
}

pub fn order_kind(set: &ApplicationSet) -> Option<OrderKind> {
    Some(deletion_order(set).ok()?.kind())
}

/// Returns an Application's revisions as written, one per source.
fn target_revisions(application: &Application) -> Vec<String> {
    let written = |source: &ApplicationSource| match source.target_revision.as_str() {
        "" => HEAD.to_owned(),
        revision => revision.to_owned(),
    };
    application.sources().iter().map(written).collect()
}

/// Returns the plan for Applications that are no longer generated.
fn build_removal(
    set: &ApplicationSet,
    foreseen: &AppSetPreview,
    options: &AppSetRuleOptions,
) -> Result<Removal, String> {
    let deletion = build_deletion(set, &foreseen.removed, options)?;
    Ok(Removal {
        deletion: DeletionPlan::from_preview(&deletion, order_kind(set)),
        held: foreseen.retained.clone(),
        problems: foreseen.problems.clone(),
    })
}

/// State reported by a service.
struct ServiceState {
    appsets: Vec<ApplicationSet>,
    applications: Vec<Application>,
    options: AppSetRuleOptions,
}

impl ServiceState {
    async fn load(service: &ServiceArgs, printer: &Printer) -> Result<Self, CliError> {
        let service_client = ServiceClient::from_args(service)?;
        let ApplicationListing { applications, problems } = service_client.query(&[]).await?;
        problems.iter().for_each(|problem| printer.warn(problem));
        let AppSetListing { appsets, options, .. } = client::find(&service_client, None).await?;
        Ok(Self { appsets, applications, options })
    }

    /// Previews how the Applications would change if `set`, from a file, replaced the existing
    /// ApplicationSet.
    fn preview_changes(
        &self,
        set: &ApplicationSet,
        generated: &AppSetOutput,
        targets: &BTreeMap<&str, Vec<String>>,
    ) -> AppSetPreview {
        let mut set = set.clone();
        // The Applications refer to the existing ApplicationSet as their owner.
        if let Some(there) = self.appsets.iter().find(|one| qualified_name(one) == qualified_name(&set)) {
            set.metadata.uid.clone_from(&there.metadata.uid);
        }
        let mut options = self.options.clone();
        options.preserved_labels.push(MANAGED_LABEL.to_owned());
        preview_appset(&set, generated, &self.applications, targets, &options)
    }
}

/// Result of resolving a revision.
#[derive(Clone)]
enum ResolvedRevision {
    /// A commit or version.
    Resolved(String),
    /// The revision as written, because it couldn't be resolved.
    Unknown(String),
}

impl ResolvedRevision {
    fn display_text(&self) -> String {
        let (Self::Resolved(revision) | Self::Unknown(revision)) = self;
        revision.clone()
    }

    /// Returns all resolved revisions, or `None` if any is unknown.
    fn all_resolved(all: &[Self]) -> Option<Vec<String>> {
        let found = |one: &Self| match one {
            Self::Resolved(revision) => Some(revision.clone()),
            Self::Unknown(_) => None,
        };
        all.iter().map(found).collect()
    }
}

/// Cache of resolved revisions.
struct RevisionResolver<'a> {
    files: &'a AppSetFiles,
    base: &'a Path,
    cache: BTreeMap<[String; 3], ResolvedRevision>,
    printer: &'a Printer,
}

impl RevisionResolver<'_> {
    /// Returns one revision per source. Reports unresolved revisions and returns them as written.
    fn resolve_all(&mut self, application: &Application) -> Vec<ResolvedRevision> {
        application.sources().iter().map(|source| self.resolve(source)).collect()
    }

    fn resolve(&mut self, source: &ApplicationSource) -> ResolvedRevision {
        let requested_revision = match source.target_revision.as_str() {
            "" => HEAD,
            revision => revision,
        };
        let key = [source.repo_url.clone(), source.chart.clone(), requested_revision.to_owned()];
        if let Some(known) = self.cache.get(&key) {
            return known.clone();
        }
        let origin = self.files.repositories.origin(source, self.base);
        let found = origin.and_then(|origin| origin.resolve(source, &source.target_revision));
        let found = found.map(ResolvedRevision::Resolved).unwrap_or_else(|error| {
            self.printer.note(&format!(
                "revision {requested_revision} cannot be resolved and is shown as written: {error}"
            ));
            ResolvedRevision::Unknown(requested_revision.to_owned())
        });
        self.cache.insert(key, found.clone());
        found
    }
}
