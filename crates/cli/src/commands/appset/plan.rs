//! `tidegate appset plan`: in which order the Applications of ApplicationSets in files would be synced and deleted, and what each
//! would change from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate_applicationset::changes::Generated;
use tidegate_applicationset::foreseen::{Foreseen, foresee};
use tidegate_applicationset::guard;
use tidegate_applicationset::order::order;
use tidegate_applicationset::policy::{Options, is_progressive};
use tidegate_applicationset::preview::{self, DeletionPreview};
use tidegate_applicationset::rollout::{OwnCases, Standing, Targets, full_name, request};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::{concurrency_group, is_known_gate};
use tidegate_lifecycle::rollout::{MemberView, Options as Cases, RolloutView};
use tidegate_lifecycle::teardown::OrderWord;
use tidegate_model::argo::{Application, ApplicationSet, ApplicationSource};
use tidegate_service::applications::store::MANAGED_LABEL;
use tidegate_service::reach::{Reached, ReachedSets};
use tidegate_service::sets::taken;

use super::desk;
use super::files::Files;
use crate::args::{ServiceArgs, SetPlanArgs};
use crate::commands::app::desk::Desk;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::Printer;
use crate::output::set::name;
use crate::output::set_plan::{self, DeletionPlan, Planned, Removal, RolloutPlan, SetPlan};

/// What an empty revision means.
const HEAD: &str = "HEAD";

pub async fn run(args: &SetPlanArgs, printer: &Printer) -> Result<Ended, CliError> {
    let served = if args.compare { Some(Served::asked(&args.service, printer).await?) } else { None };
    // Repositories are read with calls that wait.
    tokio::task::block_in_place(|| of_files(args, served.as_ref(), printer))
}

fn of_files(args: &SetPlanArgs, served: Option<&Served>, printer: &Printer) -> Result<Ended, CliError> {
    let gates = KnownGates::read(args.gates.as_deref())?;
    let options = served.map(|served| served.options.clone()).unwrap_or_default();
    let mut files = Files::read(&args.files, &args.found, &options, printer)?;
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for (set, base) in files.sets.clone() {
        let (generated, refused) = files.generated(&set, &base, printer)?;
        problems.extend(refused);
        let generated = taken(generated);
        let mut revisions = Revisions { files: &files, base: &base, found: BTreeMap::new(), printer };
        let wrong = match planned(&set, &generated, (served, &options), &mut revisions) {
            Ok(plan) => {
                let problems = plan.removal.iter().flat_map(|removal| &removal.problems);
                problems.for_each(|problem| {
                    printer.warn(&format!("ApplicationSet {}: {problem}", set.metadata.name))
                });
                let wrong = gates.problems(&plan);
                plans.push(plan);
                wrong
            }
            Err(wrong) => wrong,
        };
        let wrong = wrong.into_iter().map(|wrong| format!("ApplicationSet {}: {wrong}", set.metadata.name));
        problems.extend(wrong);
    }
    // As far as there are plans, they are shown; the exit code says that they are not all.
    if !plans.is_empty() {
        set_plan::print(&plans, args.output, printer)?;
    }
    if problems.is_empty() { Ok(Ended::Done) } else { Err(CliError::Generate { problems, is_input: true }) }
}

/// The gates that somebody has defined; nothing where it is not known which.
struct KnownGates(Option<BTreeSet<String>>);

impl KnownGates {
    fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self(None)) };
        Ok(Self(Some(input::definitions(Some(path))?.names().collect())))
    }

    /// The gates of a plan that would never open.
    fn problems(&self, plan: &SetPlan) -> Vec<String> {
        let steps = plan.rollout.iter().flat_map(|rollout| &rollout.steps);
        let gates = steps.flat_map(|step| step.terms.gates.iter().map(move |gate| (step.step, gate)));
        gates.filter_map(|(step, gate)| Some(format!("step {step} {}", self.why_never(gate)?))).collect()
    }

    fn why_never(&self, gate: &str) -> Option<String> {
        if concurrency_group(gate).is_some() {
            return Some(format!(
                "waits for ever for gate {gate}, which gives places to operations, and none to steps"
            ));
        }
        let known = self.0.as_ref().filter(|known| !is_known_gate(gate) && !known.contains(gate))?;
        let mut usable: Vec<&str> = known.iter().map(String::as_str).collect();
        usable.retain(|gate| concurrency_group(gate).is_none());
        let defined = if usable.is_empty() { "none".to_owned() } else { usable.join(", ") };
        Some(format!(
            "waits for ever for gate {gate}, which nobody has defined; the file of --gates defines {defined}"
        ))
    }
}

/// The plan of a set, or all that is wrong with it.
fn planned(
    set: &ApplicationSet,
    generated: &Generated,
    (served, options): (Option<&Served>, &Options),
    revisions: &mut Revisions<'_>,
) -> Result<SetPlan, Vec<String>> {
    let applications: Vec<Application> = generated.applications.values().cloned().collect();
    let applications = applications.as_slice();
    let asked: BTreeMap<&str, Vec<String>> =
        applications.iter().map(|one| (one.metadata.name.as_str(), target_revisions(one))).collect();
    let meant: BTreeMap<&str, Vec<Meant>> =
        applications.iter().map(|one| (one.metadata.name.as_str(), revisions.of(one))).collect();
    let found: BTreeMap<&str, Vec<String>> =
        meant.iter().map(|(name, all)| (*name, all.iter().map(Meant::shown).collect())).collect();
    let known: BTreeMap<&str, Vec<String>> =
        meant.iter().filter_map(|(name, all)| Some((*name, Meant::all_found(all)?))).collect();
    let foreseen = served.map(|served| served.foreseen(set, generated, &known));
    let rollout = rollout(set, applications, &found, options);
    let deletion = deletion(set, applications, options);
    let removal = foreseen.as_ref().map(|foreseen| removal(set, foreseen, options));
    let removal = removal.transpose().map_err(|wrong| vec![wrong])?;
    let guard = guard::limit(set).map_err(|invalid| invalid.to_string());
    let (rollout, deletion) = match (rollout, deletion, guard) {
        (Ok(rollout), Ok(deletion), Ok(_)) => (rollout, deletion),
        (rollout, deletion, guard) => {
            let wrong = [rollout.err(), deletion.err(), guard.err()];
            return Err(wrong.into_iter().flatten().collect());
        }
    };
    let place: BTreeMap<&str, &MemberView> = rollout
        .iter()
        .flat_map(|(rollout, _)| &rollout.members)
        .map(|member| (member.application.as_str(), member))
        .collect();
    let members = found.into_iter().map(|(name, revisions)| Planned {
        name: name.to_owned(),
        step: place.get(name).and_then(|member| member.step.parse().ok()),
        also: place.get(name).map(|member| member.also.clone()).unwrap_or_default(),
        revisions,
        target_revisions: asked.get(name).cloned().unwrap_or_default(),
        change: foreseen.as_ref().and_then(|foreseen| foreseen.members.get(name).cloned()),
        is_unresolved: !known.contains_key(name),
    });
    Ok(SetPlan {
        application_set: name(set),
        applications: members.collect(),
        rollout: rollout.as_ref().map(|(rollout, cases)| RolloutPlan::of(rollout, *cases)),
        removal,
        deletion: DeletionPlan::of(&deletion, word(set)),
    })
}

/// Its progressive sync before it begins, where it has one.
fn rollout(
    set: &ApplicationSet,
    applications: &[Application],
    revisions: &BTreeMap<&str, Vec<String>>,
    options: &Options,
) -> Result<Option<(RolloutView, OwnCases)>, String> {
    if !is_progressive(set, options) {
        return Ok(None);
    }
    let targets = Targets::of(set)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let standing = revisions.iter().map(|(name, revisions)| {
        ((*name).to_owned(), Standing { revisions: revisions.clone(), ..Standing::default() })
    });
    let standing = standing.collect();
    let asked = request(set, &targets, applications, &standing, Cases::default());
    let asked = asked.map_err(|invalid| invalid.to_string())?;
    let cases = OwnCases::of(set).map_err(|invalid| invalid.to_string())?;
    let view = preview::rollout(asked, SystemClock.now()).map_err(|refused| refused.to_string())?;
    Ok(Some((view, cases)))
}

/// The deletion of all Applications that a set makes.
pub fn deletion(
    set: &ApplicationSet,
    applications: &[Application],
    options: &Options,
) -> Result<DeletionPreview, String> {
    preview::deletion(set, applications, options, SystemClock.now()).map_err(|refused| refused.to_string())
}

/// Its order, in one word.
pub fn word(set: &ApplicationSet) -> Option<OrderWord> {
    Some(order(set).ok()?.word())
}

/// The revisions of an Application as they are written, one a source.
fn target_revisions(application: &Application) -> Vec<String> {
    let written = |source: &ApplicationSource| match source.target_revision.as_str() {
        "" => HEAD.to_owned(),
        revision => revision.to_owned(),
    };
    application.sources().iter().map(written).collect()
}

/// What becomes of Applications that are not generated any more.
fn removal(set: &ApplicationSet, foreseen: &Foreseen, options: &Options) -> Result<Removal, String> {
    let deletion = deletion(set, &foreseen.removed, options)?;
    Ok(Removal {
        deletion: DeletionPlan::of(&deletion, word(set)),
        held: foreseen.held.clone(),
        problems: foreseen.wrong.clone(),
    })
}

/// What a service knows.
struct Served {
    sets: Vec<ApplicationSet>,
    applications: Vec<Application>,
    options: Options,
}

impl Served {
    async fn asked(service: &ServiceArgs, printer: &Printer) -> Result<Self, CliError> {
        let desk = Desk::of(service)?;
        let Reached { applications, problems } = desk.ask(&[]).await?;
        problems.iter().for_each(|problem| printer.warn(problem));
        let ReachedSets { sets, options, .. } = desk::find(&desk, None).await?;
        Ok(Self { sets, applications, options })
    }

    /// What would become of its Applications, were the set as in a file.
    fn foreseen(
        &self,
        set: &ApplicationSet,
        generated: &Generated,
        targets: &BTreeMap<&str, Vec<String>>,
    ) -> Foreseen {
        let mut set = set.clone();
        // Its Applications name the one that is there as their owner.
        if let Some(there) = self.sets.iter().find(|one| full_name(one) == full_name(&set)) {
            set.metadata.uid.clone_from(&there.metadata.uid);
        }
        let mut options = self.options.clone();
        options.preserved_labels.push(MANAGED_LABEL.to_owned());
        foresee(&set, generated, &self.applications, targets, &options)
    }
}

/// What a revision means.
#[derive(Clone)]
enum Meant {
    /// This commit, or version.
    Found(String),
    /// Nobody could tell; so it is written.
    Unknown(String),
}

impl Meant {
    fn shown(&self) -> String {
        let (Self::Found(revision) | Self::Unknown(revision)) = self;
        revision.clone()
    }

    /// All of them, where all could be found out.
    fn all_found(all: &[Self]) -> Option<Vec<String>> {
        let found = |one: &Self| match one {
            Self::Found(revision) => Some(revision.clone()),
            Self::Unknown(_) => None,
        };
        all.iter().map(found).collect()
    }
}

/// What revisions mean, each looked up once.
struct Revisions<'a> {
    files: &'a Files,
    base: &'a Path,
    found: BTreeMap<[String; 3], Meant>,
    printer: &'a Printer,
}

impl Revisions<'_> {
    /// One for each source: as it is written, where it cannot be found out, which is told.
    fn of(&mut self, application: &Application) -> Vec<Meant> {
        application.sources().iter().map(|source| self.meant(source)).collect()
    }

    fn meant(&mut self, source: &ApplicationSource) -> Meant {
        let asked = match source.target_revision.as_str() {
            "" => HEAD,
            revision => revision,
        };
        let key = [source.repo_url.clone(), source.chart.clone(), asked.to_owned()];
        if let Some(known) = self.found.get(&key) {
            return known.clone();
        }
        let origin = self.files.repositories.origin(source, self.base);
        let found = origin.and_then(|origin| origin.resolve(source, &source.target_revision));
        let found = found.map(Meant::Found).unwrap_or_else(|error| {
            self.printer.note(&format!("revision {asked} is shown as it is written: {error}"));
            Meant::Unknown(asked.to_owned())
        });
        self.found.insert(key, found.clone());
        found
    }
}
