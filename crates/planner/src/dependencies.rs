//! Dependencies between objects: `tidegate.dev/depends-on`, and the annotations of other tools.
//!
//! A dependency in the same wave becomes a dependency between tasks. The order of the waves already satisfies a
//! dependency in an earlier wave, and contradicts one in a later wave.

mod cycles;
mod entry;
mod foreign;
mod pruned_objects;
mod relations;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_model::{
    Action, GroupKind, Object, ObjectKey, Phase, SyncRequest, TaskDependency, TaskId, annotations, argo,
};

use self::entry::{DependencyEntry, UnsupportedEntry, format_key, parse_entries};
use crate::draft::TaskDraft;
use crate::findings::Findings;
use crate::known_kinds::is_crd;
use crate::task_order::{created_kind, created_namespace};

pub(crate) use self::foreign::{ForeignDependencies, foreign_dependencies};
pub(crate) use self::pruned_objects::{delay_needed_objects, keep_needed_objects};

/// Maximum number of unknown names for which similar names are searched.
const SUGGESTIONS_MAX: usize = 20;

/// Maximum number of edits between an unknown name and the name of an object in the manifests.
const EDITS_MAX: usize = 2;

/// Error in a dependency, which makes the plan invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum DependencyError {
    #[error(transparent)]
    Entry(#[from] UnsupportedEntry),
    #[error(
        "{dependent} depends on {dependency}, which is applied later, in wave {wave} of {phase}; move \
         {dependent} to the same or a later wave, or remove the dependency"
    )]
    LaterWave { dependent: String, dependency: String, phase: Phase, wave: i64 },
    #[error(
        "{dependent} depends on {dependency}, which this operation prunes; add {dependency} to the manifests, or \
         remove the dependency"
    )]
    Pruned { dependent: String, dependency: String },
    #[error("{dependent} depends on {entry}, which is not in the manifests; did you mean {nearest}?")]
    Misspelled { dependent: String, entry: String, nearest: String },
    #[error(
        "{dependent} depends on {entry}, which is not in the manifests, and Tidegate cannot wait for other objects \
         yet; correct the name, add the object to the manifests, or depend on a hook that waits for it"
    )]
    External { dependent: String, entry: String },
    #[error(
        "the kapp and Nelm annotations declare more than {max} dependencies; use fewer or smaller groups",
        max = relations::RELATIONS_MAX
    )]
    TooMany,
    #[error("dependencies form a cycle: {path}; remove one of these dependencies")]
    Cycle { path: String },
}

impl DependencyError {
    /// Returns the stable code of the finding.
    fn code(&self) -> &'static str {
        match self {
            Self::Entry(_) => "invalid-dependency",
            Self::LaterWave { .. } => "dependency-in-later-wave",
            Self::Pruned { .. } => "dependency-is-pruned",
            Self::Misspelled { .. } => "unknown-dependency",
            Self::External { .. } => "external-dependency",
            Self::TooMany => "too-many-dependencies",
            Self::Cycle { .. } => "dependency-cycle",
        }
    }
}

/// Kinds of Argo CD's control plane. On an Application, the annotation lists other Applications. On the other kinds,
/// it has no effect.
const CONTROL_PLANE_KINDS: [&str; 3] = ["Application", "ApplicationSet", "AppProject"];

/// Returns the objects that an object depends on by name, or `None` without any.
pub(crate) fn declared_dependencies(object: &Object) -> Option<String> {
    let is_control_plane = object.group() == argo::GROUP && CONTROL_PLANE_KINDS.contains(&object.kind());
    let declared = object.annotation(annotations::DEPENDS_ON).filter(|_| !is_control_plane);
    let mut entries = foreign::cli_utils_entries(object);
    entries.extend(declared.map(str::to_owned));
    (!entries.is_empty()).then(|| entries.join(","))
}

/// Objects in the manifests.
#[derive(Debug, Default)]
pub(crate) struct ManifestObjects {
    /// Keys of all objects, including those that the sync skips.
    pub keys: BTreeSet<ObjectKey>,
    /// Declared dependencies of the objects that the sync skips.
    pub skipped: BTreeMap<ObjectKey, String>,
}

/// Resolves the dependencies of all tasks. `drafts` are in the order of the plan. A dependency on an object that
/// the sync skips stands for the dependencies of that object.
pub(crate) fn resolve_dependencies(
    request: &SyncRequest,
    drafts: &[TaskDraft],
    manifests: &ManifestObjects,
    findings: &mut Findings,
) -> Vec<TaskDependency> {
    if drafts.iter().all(|draft| draft.depends_on.is_none() && draft.foreign.relations.is_empty()) {
        return Vec::new();
    }
    let mut resolver = Resolver {
        drafts,
        by_key: index_by_key(drafts),
        manifest_keys: &manifests.keys,
        skipped: parse_skipped(&manifests.skipped),
        is_deletion: request.deletion.is_some(),
        suggestions_left: SUGGESTIONS_MAX,
        errors: Vec::new(),
        ignored: Vec::new(),
        dependencies: Vec::new(),
        foreign: Vec::new(),
    };
    for (id, draft) in with_ids(drafts) {
        if let Some(declared) = &draft.depends_on {
            resolver.resolve_task(id, draft, declared);
        }
    }
    let Resolver { mut dependencies, mut foreign, mut errors, mut ignored, .. } = resolver;
    ignored.extend(relations::add_relations(drafts, request.deletion.is_some(), &mut foreign, findings));
    ignored.extend(remove_foreign_cycles(drafts, &dependencies, &mut foreign));
    for (id, error) in ignored {
        if let Some(draft) = drafts.get(id.index()) {
            let message = format!("an annotation of another tool has no effect on the order: {error}");
            findings.warn(foreign::UNTRANSLATED, &draft.subject, message);
        }
    }
    dependencies.append(&mut foreign);
    add_provider_dependencies(drafts, &mut dependencies);
    dependencies.sort_unstable();
    dependencies.dedup();
    let is_prune = |id: TaskId| drafts.get(id.index()).is_some_and(|draft| draft.task.action.is_prune());
    // Writes never depend on prunes, nor prunes on writes.
    let (mut prunes, mut writes): (Vec<_>, Vec<_>) =
        dependencies.into_iter().partition(|one| is_prune(one.dependent));
    for dependencies in [&mut prunes, &mut writes] {
        let cycles = cycles::find_cycles(drafts.len(), dependencies);
        if cycles.len() >= cycles::CYCLES_MAX {
            // There may be more cycles. The reported ones explain the problem.
            dependencies.clear();
        }
        for cycle in cycles {
            review_cycle(drafts, cycle, dependencies, &mut errors, findings);
        }
    }
    let mut dependencies = [prunes, writes].concat();
    dependencies.sort_unstable();
    for (id, error) in errors {
        if let Some(draft) = drafts.get(id.index()) {
            findings.error(error.code(), &draft.subject, error.to_string());
        }
    }
    dependencies
}

/// Parses the dependencies of skipped objects. Entries that can't be used are reported when the objects are
/// synced.
fn parse_skipped(skipped: &BTreeMap<ObjectKey, String>) -> BTreeMap<&ObjectKey, Vec<DependencyEntry>> {
    let entries = |declared: &String| parse_entries(declared).into_iter().flatten().collect();
    skipped.iter().map(|(key, declared)| (key, entries(declared))).collect()
}

fn with_ids(drafts: &[TaskDraft]) -> impl Iterator<Item = (TaskId, &TaskDraft)> {
    (0_u32..).map(TaskId).zip(drafts)
}

fn index_by_key(drafts: &[TaskDraft]) -> HashMap<ObjectKey, Vec<TaskId>> {
    let mut by_key: HashMap<ObjectKey, Vec<TaskId>> = HashMap::with_capacity(drafts.len());
    for (id, draft) in with_ids(drafts) {
        by_key.entry(draft.task.key()).or_default().push(id);
    }
    by_key
}

/// Phase and wave of a task.
fn place(draft: &TaskDraft) -> (Phase, i64) {
    (draft.task.phase, draft.task.wave)
}

/// Resolution of declared dependencies to tasks.
struct Resolver<'p> {
    drafts: &'p [TaskDraft],
    by_key: HashMap<ObjectKey, Vec<TaskId>>,
    manifest_keys: &'p BTreeSet<ObjectKey>,
    skipped: BTreeMap<&'p ObjectKey, Vec<DependencyEntry>>,
    is_deletion: bool,
    suggestions_left: usize,
    errors: Vec<(TaskId, DependencyError)>,
    /// Errors in the annotations of other tools, which only cause warnings, because the manifests are valid without them.
    ignored: Vec<(TaskId, DependencyError)>,
    dependencies: Vec<TaskDependency>,
    /// Dependencies that objects declare for other tools.
    foreign: Vec<TaskDependency>,
}

impl<'p> Resolver<'p> {
    fn resolve_task(&mut self, id: TaskId, draft: &TaskDraft, declared: &str) {
        for entry in parse_entries(declared) {
            match entry {
                Ok(entry) if draft.task.action.is_prune() => self.order_prunes(id, draft, &entry),
                Ok(entry) => {
                    let is_foreign = draft.foreign.cli_utils.contains(&entry.to_string());
                    let count = self.dependencies.len();
                    let resolved = self.resolve_entry(id, draft, &entry);
                    if is_foreign {
                        self.foreign.extend(self.dependencies.drain(count..));
                    }
                    match resolved {
                        Ok(()) => {}
                        Err(error) if is_foreign => self.ignored.push((id, error)),
                        Err(error) => self.errors.push((id, error)),
                    }
                }
                // Only the manifests are reviewed: nothing can be corrected in an object that is deleted.
                Err(_) if draft.task.action.is_prune() => {}
                Err(error) => self.errors.push((id, error.into())),
            }
        }
    }

    /// Returns the tasks of the object that an entry names. Without a namespace, the entry names a
    /// cluster-scoped object, or an object in the dependent's namespace.
    fn find_tasks(&self, entry: &DependencyEntry, namespace: &str) -> Vec<(TaskId, &'p TaskDraft)> {
        let keys = entry.keys(namespace);
        let named = keys.iter().find_map(|key| self.by_key.get(key)).into_iter().flatten();
        named.filter_map(|id| Some((*id, self.drafts.get(id.index())?))).collect()
    }

    fn resolve_entry(
        &mut self,
        id: TaskId,
        draft: &TaskDraft,
        entry: &DependencyEntry,
    ) -> Result<(), DependencyError> {
        let skipped = self.resolve_name(id, draft, entry, &draft.task.namespace)?;
        let mut open: Vec<&'p ObjectKey> = skipped.into_iter().collect();
        let mut passed: BTreeSet<&'p ObjectKey> = open.iter().copied().collect();
        while let Some(key) = open.pop() {
            let entries = self.skipped.get(key).cloned().unwrap_or_default();
            for entry in entries {
                match self.resolve_name(id, draft, &entry, &key.namespace) {
                    Ok(next) => open.extend(next.filter(|next| passed.insert(next))),
                    Err(DependencyError::LaterWave { dependent, dependency, phase, wave }) => {
                        let dependency = format!("{dependency} (through {key})");
                        return Err(DependencyError::LaterWave { dependent, dependency, phase, wave });
                    }
                    // Other errors are reported when the skipped object is synced.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Resolves a name. Returns the object if the sync skips it and it has dependencies of its own.
    fn resolve_name(
        &mut self,
        id: TaskId,
        draft: &TaskDraft,
        entry: &DependencyEntry,
        namespace: &str,
    ) -> Result<Option<&'p ObjectKey>, DependencyError> {
        let named = self.find_tasks(entry, namespace);
        let writes = || named.iter().filter(|(_, other)| !other.task.action.is_prune());
        if let Some((dependency, _)) = writes().find(|(_, other)| place(other) == place(draft)) {
            self.dependencies.push(TaskDependency { dependent: id, dependency: *dependency });
            return Ok(None);
        }
        // The objects of a deletion may be gone already.
        if self.is_deletion {
            return Ok(None);
        }
        if writes().any(|(_, other)| place(other) < place(draft)) {
            return Ok(None);
        }
        let dependent = || draft.task.key().to_string();
        if let Some((_, later)) = writes().next() {
            let (phase, wave) = place(later);
            let dependency = later.task.key().to_string();
            return Err(DependencyError::LaterWave { dependent: dependent(), dependency, phase, wave });
        }
        if let Some((_, pruned)) = named.iter().find(|(_, other)| other.task.action == Action::Prune) {
            return Err(DependencyError::Pruned {
                dependent: dependent(),
                dependency: pruned.task.key().to_string(),
            });
        }
        if let Some(key) = entry.keys(namespace).iter().find(|key| self.manifest_keys.contains(*key)) {
            return Ok(self.skipped.get_key_value(key).map(|(key, _)| *key));
        }
        let entry_text = entry.to_string();
        Err(match self.find_nearest(draft, entry) {
            Some(nearest) => {
                DependencyError::Misspelled { dependent: dependent(), entry: entry_text, nearest }
            }
            None => DependencyError::External { dependent: dependent(), entry: entry_text },
        })
    }

    /// Delays the prune of an object until the objects that depend on it are gone.
    fn order_prunes(&mut self, id: TaskId, draft: &TaskDraft, entry: &DependencyEntry) {
        if draft.task.action != Action::Prune {
            return;
        }
        let is_pruned_with =
            |other: &TaskDraft| other.task.action == Action::Prune && place(other) == place(draft);
        let named = self
            .find_tasks(entry, &draft.task.namespace)
            .into_iter()
            .filter(|(_, other)| is_pruned_with(other));
        self.dependencies.extend(named.map(|(dependent, _)| TaskDependency { dependent, dependency: id }));
    }

    /// Returns the object in the manifests that an unknown name probably means: one with the same kind and
    /// name, or one with a similar name.
    fn find_nearest(&mut self, draft: &TaskDraft, entry: &DependencyEntry) -> Option<String> {
        self.suggestions_left = self.suggestions_left.checked_sub(1)?;
        let keys = entry.keys(&draft.task.namespace);
        let wanted = keys.last()?;
        let text = format_key(wanted);
        let own = draft.task.key();
        let all = self.manifest_keys.iter().filter(|key| !key.name.is_empty() && **key != own);
        let rated = all.filter_map(|key| {
            if key.name == wanted.name && key.kind.eq_ignore_ascii_case(&wanted.kind) {
                return Some((0, key));
            }
            let candidate = format_key(key);
            if candidate.len().abs_diff(text.len()) > EDITS_MAX {
                return None;
            }
            let edits = strsim::damerau_levenshtein(&text, &candidate);
            (edits <= EDITS_MAX).then_some((edits, key))
        });
        rated.min().map(|(_, key)| format_key(key))
    }
}

/// Removes the dependencies of other tools that are part of a cycle, and returns the cycles. The manifests were valid before
/// Tidegate read these annotations.
fn remove_foreign_cycles(
    drafts: &[TaskDraft],
    own: &[TaskDependency],
    foreign: &mut Vec<TaskDependency>,
) -> Vec<(TaskId, DependencyError)> {
    if foreign.is_empty() {
        return Vec::new();
    }
    let mut all = [own, foreign.as_slice()].concat();
    add_provider_dependencies(drafts, &mut all);
    all.sort_unstable();
    all.dedup();
    let members = cycles::cyclic_tasks(drafts.len(), &all);
    let count = foreign.len();
    foreign.retain(|one| !members.contains(&one.dependent) || !members.contains(&one.dependency));
    if foreign.len() == count {
        return Vec::new();
    }
    let name = |id: &TaskId| drafts.get(id.index()).map(|draft| draft.task.key().to_string());
    let describe = |cycle: Vec<TaskId>| {
        let first = *cycle.first()?;
        let names: Vec<String> = cycle.iter().chain([&first]).filter_map(name).collect();
        Some((first, DependencyError::Cycle { path: names.join(" → ") }))
    };
    cycles::find_cycles(drafts.len(), &all).into_iter().filter_map(describe).collect()
}

/// Adds the order between objects and their namespace or their kind's definition, if these or the objects have
/// dependencies. Otherwise, the order of kinds within the wave is sufficient.
fn add_provider_dependencies(drafts: &[TaskDraft], dependencies: &mut Vec<TaskDependency>) {
    let ordered: BTreeSet<TaskId> =
        dependencies.iter().flat_map(|one| [one.dependent, one.dependency]).collect();
    let mut pruned: HashMap<(Phase, i64, &str), TaskId> = HashMap::new();
    for (id, draft) in with_ids(drafts).filter(|(_, draft)| draft.task.action.is_prune()) {
        let (phase, wave) = place(draft);
        let gvk = &draft.task.gvk;
        if gvk.is_namespace() {
            pruned.insert((phase, wave, &draft.task.name), id);
        } else if is_crd(&gvk.group, &gvk.kind)
            && let Some((_, group)) = draft.task.name.split_once('.')
        {
            // Groups contain a dot, and names of namespaces don't.
            pruned.insert((phase, wave, group), id);
        }
    }
    // The deletion of a namespace or of a definition also deletes its objects, so it follows the ordered ones.
    for dependency in &ordered {
        let Some(draft) = drafts.get(dependency.index()).filter(|draft| draft.task.action.is_prune()) else {
            continue;
        };
        let (phase, wave) = place(draft);
        for name in [draft.task.namespace.as_str(), draft.task.gvk.group.as_str()] {
            if let Some(dependent) = pruned.get(&(phase, wave, name)).filter(|id| *id != dependency) {
                dependencies.push(TaskDependency { dependent: *dependent, dependency: *dependency });
            }
        }
    }
    let waiting: BTreeSet<TaskId> = dependencies.iter().map(|one| one.dependent).collect();
    let mut namespaces: HashMap<(Phase, i64, String), TaskId> = HashMap::new();
    let mut kinds: HashMap<(Phase, i64, GroupKind), TaskId> = HashMap::new();
    for id in waiting {
        let Some(draft) = drafts.get(id.index()).filter(|draft| draft.manifest.is_some()) else { continue };
        let (phase, wave) = place(draft);
        if let Some(namespace) = created_namespace(draft) {
            namespaces.insert((phase, wave, namespace), id);
        }
        if let Some(kind) = created_kind(draft) {
            kinds.insert((phase, wave, kind), id);
        }
    }
    if namespaces.is_empty() && kinds.is_empty() {
        return;
    }
    for (dependent, draft) in with_ids(drafts).filter(|(_, draft)| draft.manifest.is_some()) {
        let (phase, wave) = place(draft);
        let namespace = namespaces.get(&(phase, wave, draft.task.namespace.clone()));
        let kind = kinds.get(&(phase, wave, draft.task.gvk.group_kind()));
        dependencies.extend(
            namespace.into_iter().chain(kind).map(|id| TaskDependency { dependent, dependency: *id }),
        );
    }
}

/// Removes a cycle from the dependencies. Objects in the manifests can be corrected, so the cycle is an error.
/// The order of prunes is only ignored, because an object that can't be corrected must still be deletable.
fn review_cycle(
    drafts: &[TaskDraft],
    cycle: Vec<TaskId>,
    dependencies: &mut Vec<TaskDependency>,
    errors: &mut Vec<(TaskId, DependencyError)>,
    findings: &mut Findings,
) {
    let members: BTreeSet<TaskId> = cycle.iter().copied().collect();
    dependencies.retain(|one| !members.contains(&one.dependent) || !members.contains(&one.dependency));
    let position = |id: &TaskId| drafts.get(id.index()).map_or(usize::MAX, |draft| draft.subject.position);
    let Some(start) = (0..cycle.len()).min_by_key(|place| cycle.get(*place).map(position)) else { return };
    let from_start = cycle.iter().cycle().skip(start).take(cycle.len().saturating_add(1));
    let path: Vec<&TaskDraft> = from_start.filter_map(|id| drafts.get(id.index())).collect();
    let Some((first, id)) = path.first().zip(cycle.get(start)) else { return };
    let is_prune = first.task.action.is_prune();
    let mut names: Vec<String> = path.iter().map(|draft| draft.task.key().to_string()).collect();
    if is_prune {
        // An object's prune waits for the objects that depend on it.
        names.reverse();
    }
    let error = DependencyError::Cycle { path: names.join(" → ") };
    if is_prune {
        let message = format!("{error} (the order of their deletion is ignored)");
        findings.warn(error.code(), &first.subject, message);
    } else {
        errors.push((*id, error));
    }
}
