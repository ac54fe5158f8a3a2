//! Which objects are wanted, under which key?
//!
//! Namespaces follow the scope of the kind, the last of several objects with one key wins, and what takes no part in a
//! sync is put aside with the reason.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tidegate_model::{Object, ObjectKey, SyncRequest};

use crate::annotated;
use crate::contract;
use crate::findings::{Findings, Subject};
use crate::hooks::{self, Remark, Role};
use crate::kinds::Kinds;
use crate::left_out::LeftOut;
use crate::manifests::{Origin, Target};
use crate::options;
use crate::requests::{RESERVED, Requests, requests};

/// A wanted object that takes part in the sync.
#[derive(Debug)]
pub(crate) struct Desired {
    /// Where it stands in the input.
    pub place: usize,
    /// Where it was read.
    pub origin: Origin,
    /// The object with its namespace set right.
    pub object: Object,
    /// Its key; the name is empty when it is generated.
    pub key: ObjectKey,
    /// Whether its kind lives in a namespace; `None` when nobody knows.
    pub namespaced: Option<bool>,
    /// What it is to the sync: of those that take part, `Resource` or `Hook`.
    pub role: Role,
    /// What its `tidegate.dev/*` annotations ask for.
    pub requests: Requests,
}

impl Desired {
    /// Its place, key and origin, as findings name them.
    pub fn subject(&self) -> Subject {
        subject(self.place, &self.key, &self.object, &self.origin)
    }

    /// The object, and what it is for findings.
    pub fn into_parts(self) -> (Object, Subject) {
        let Self { place, origin, object, key, .. } = self;
        let prefix = object.generate_name().to_owned();
        (object, Subject { place, key: Some(key), prefix, origin: Some(origin) })
    }
}

/// A target with its namespace set right.
struct Scoped {
    place: usize,
    origin: Origin,
    object: Object,
    key: ObjectKey,
    namespaced: Option<bool>,
}

impl Scoped {
    fn subject(&self) -> Subject {
        subject(self.place, &self.key, &self.object, &self.origin)
    }
}

fn subject(place: usize, key: &ObjectKey, object: &Object, origin: &Origin) -> Subject {
    let prefix = object.generate_name().to_owned();
    Subject { place, key: Some(key.clone()), prefix, origin: Some(origin.clone()) }
}

/// Where an object belongs.
pub(crate) struct Scope<'o> {
    /// Whether its kind lives in a namespace; `None` when nobody knows.
    pub namespaced: Option<bool>,
    /// Its namespace: none for kinds of the cluster scope, else the destination's where it names none.
    pub namespace: &'o str,
}

/// Finds where an object belongs.
pub(crate) fn scope<'o>(object: &'o Object, kinds: &Kinds<'_>, destination: &'o str) -> Scope<'o> {
    let namespaced = kinds.namespaced(object.group(), object.kind());
    let namespace = match object.namespace() {
        _ if namespaced == Some(false) => "",
        "" => destination,
        named => named,
    };
    Scope { namespaced, namespace }
}

/// What the manifests want, as far as a sync is concerned.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Those that take part, in the order of the input.
    pub objects: Vec<Desired>,
    /// Keys of objects that the manifests name but the sync leaves alone: they are not pruned either.
    pub left_alone: BTreeSet<ObjectKey>,
}

/// Sorts out the targets of one plan.
pub(crate) struct Sorter<'p> {
    pub request: &'p SyncRequest,
    pub kinds: &'p Kinds<'p>,
    pub findings: &'p mut Findings,
    pub left_out: &'p mut Vec<LeftOut>,
    /// Hooks that have succeeded with the inputs they have.
    pub unchanged: &'p BTreeSet<ObjectKey>,
}

impl Sorter<'_> {
    /// Finds the objects that take part in the sync, and notes why others do not.
    pub fn sort_out(&mut self, targets: Vec<Target>) -> Wanted {
        let mut wanted = Wanted::default();
        let deletes = self.request.deletion.is_some();
        let all = self.last_wins(self.scope(targets));
        let keys: BTreeSet<ObjectKey> = all.iter().map(|scoped| scoped.key.clone()).collect();
        for mut scoped in all {
            let (role, mut remarks) = match deletes {
                true => (hooks::role_in_deletion(&scoped.object), Vec::new()),
                false => hooks::classify(&scoped.object),
            };
            if deletes && role == Role::OtherHook {
                continue;
            }
            if let Some(reason) = self.exclusion(&scoped, &role) {
                self.left_out.push(LeftOut::new(&scoped.subject(), reason));
                if role == Role::Skip {
                    remarks.push(("skipped", format!("{reason}, so it is neither applied nor pruned")));
                }
                self.note(&scoped, remarks);
                if matches!(role, Role::Skip | Role::OtherHook | Role::Dropped) {
                    wanted.left_alone.insert(scoped.key);
                }
                continue;
            }
            if role.runs() && !deletes {
                let missing = contract::missing(&scoped.object, &keys);
                remarks.extend(missing.map(|problem| ("missing-input", problem)));
            }
            let admitted = self.admit(&mut scoped, &role, &mut remarks);
            self.note(&scoped, remarks);
            let Scoped { place, origin, object, key, namespaced } = scoped;
            let desire = |requests| Desired { place, origin, object, key, namespaced, role, requests };
            wanted.objects.extend(admitted.map(desire));
        }
        wanted
    }

    /// Why an object takes no part in this sync.
    fn exclusion(&self, scoped: &Scoped, role: &Role) -> Option<&'static str> {
        match role {
            Role::Hook(_) if self.unchanged.contains(&scoped.key) => {
                exclusion(self.request, scoped, role).or(Some("its inputs are those it has succeeded with"))
            }
            role => exclusion(self.request, scoped, role),
        }
    }

    fn note(&mut self, scoped: &Scoped, remarks: Vec<Remark>) {
        for (code, message) in remarks {
            self.findings.warn(code, &scoped.subject(), message);
        }
    }

    fn scope(&self, targets: Vec<Target>) -> Vec<Scoped> {
        let scope = |(index, Target { mut object, origin }): (usize, Target)| {
            let Scope { namespaced, namespace } = scope(&object, self.kinds, &self.request.namespace);
            if namespace != object.namespace() {
                let namespace = namespace.to_owned();
                object.set_namespace(&namespace);
            }
            let key = object.key();
            Scoped { place: index + 1, origin, object, key, namespaced }
        };
        targets.into_iter().enumerate().map(scope).collect()
    }

    /// Checks what an object of the sync needs, and reads its annotations.
    fn admit(&mut self, scoped: &mut Scoped, role: &Role, remarks: &mut Vec<Remark>) -> Option<Requests> {
        let Scoped { object, key, namespaced, .. } = scoped;
        remarks.extend(options::review_resource(object, &self.request.options));
        remarks.extend(annotated::review(object));
        if self.request.deletion.is_none() {
            remarks.extend(contract::review(object, role));
        }
        let requests = requests(object, role.is_hook(), remarks);
        clean(object, remarks);
        review(object, role, remarks);
        let refusal = if key.name.is_empty() && *role == Role::Resource {
            Some((
                "generated-name",
                "only hooks may have metadata.generateName instead of metadata.name; name the object",
            ))
        } else if *namespaced != Some(false) && key.namespace.is_empty() {
            Some((
                "missing-namespace",
                "it has no namespace, and the operation has no destination namespace; give one of them",
            ))
        } else {
            None
        };
        if let Some((code, reason)) = refusal {
            self.findings.error(code, &scoped.subject(), reason);
            self.left_out.push(LeftOut::new(&scoped.subject(), reason));
            return None;
        }
        Some(requests)
    }

    /// Keeps the last of the objects with one key. Objects whose name is generated never share one.
    fn last_wins(&mut self, all: Vec<Scoped>) -> Vec<Scoped> {
        let named = || all.iter().filter(|scoped| !scoped.key.name.is_empty());
        let keys: HashSet<&ObjectKey> = named().map(|scoped| &scoped.key).collect();
        if keys.len() == named().count() {
            return all;
        }
        let mut same: BTreeMap<&ObjectKey, Vec<&Scoped>> = BTreeMap::new();
        named().for_each(|scoped| same.entry(&scoped.key).or_default().push(scoped));
        let mut dropped = BTreeSet::new();
        for (key, same) in same {
            if let Some((kept, earlier)) = same.split_last().filter(|(_, earlier)| !earlier.is_empty()) {
                self.repeated(key, &kept.subject(), earlier);
                dropped.extend(earlier.iter().map(|scoped| scoped.place));
            }
        }
        all.into_iter().filter(|scoped| !dropped.contains(&scoped.place)).collect()
    }

    fn repeated(&mut self, key: &ObjectKey, kept: &Subject, earlier: &[&Scoped]) {
        let origins: Vec<String> = earlier.iter().map(|scoped| scoped.origin.to_string()).collect();
        let message = format!(
            "Resource {}/{}/{}/{} appeared {} times among application resources. The last one wins; also at {}",
            key.group,
            key.kind,
            key.namespace,
            key.name,
            earlier.len() + 1,
            origins.join(", ")
        );
        self.findings.warn("repeated-resource", kept, message);
        for scoped in earlier {
            self.left_out
                .push(LeftOut::new(&scoped.subject(), "another object with the same key comes later"));
        }
    }
}

/// Why an object takes no part in this sync, whatever was done before.
fn exclusion(request: &SyncRequest, scoped: &Scoped, role: &Role) -> Option<&'static str> {
    let selective = !request.selection.is_empty();
    match role {
        Role::Skip => Some("its hook annotation says Skip"),
        Role::OtherHook => Some("it is a hook of something else than a sync"),
        Role::Dropped => Some("its hook annotation names no known type"),
        Role::Hook(_) if request.options.skip_hooks => Some("hooks do not run in this sync"),
        Role::Hook(_) if request.deletion.is_none() => contract::left_out(request, &scoped.object),
        Role::Resource if selective && !is_selected(request, &scoped.key) => Some("not selected"),
        Role::Hook(_) | Role::Resource => None,
    }
}

/// Whether a sync takes in an object by its key.
pub(crate) fn is_selected(request: &SyncRequest, key: &ObjectKey) -> bool {
    request.selection.is_empty() || request.selection.iter().any(|selector| selector.matches(key))
}

/// Removes what only a cluster or the engine writes.
fn clean(object: &mut Object, remarks: &mut Vec<Remark>) {
    if object.metadata_mut().remove("managedFields").is_some() {
        remarks.push((
            "server-fields",
            "metadata.managedFields is written by the cluster and is removed".to_owned(),
        ));
    }
    if RESERVED.iter().any(|annotation| object.annotation(annotation).is_some())
        && let Some(all) = object.metadata_mut().get_mut("annotations").and_then(|all| all.as_object_mut())
    {
        all.retain(|name, _| !RESERVED.contains(&name.as_str()));
    }
}

fn review(object: &Object, role: &Role, remarks: &mut Vec<Remark>) {
    use tidegate_model::annotations::{HELM_HOOK_DELETE_POLICY, HOOK_DELETE_POLICY};
    for (annotation, value) in crate::waves::wave(object).passed_over.into_iter().flatten() {
        remarks.push((
            "invalid-wave",
            format!("{value:?} in annotation {annotation} is not a whole number and is ignored; write for example \"-1\" or \"5\""),
        ));
    }
    if *role == Role::Resource {
        for annotation in [HOOK_DELETE_POLICY, HELM_HOOK_DELETE_POLICY] {
            if object.annotation(annotation).is_some() {
                let message =
                    format!("annotation {annotation} has no effect on an object that is not a hook");
                remarks.push(("annotation-without-effect", message));
            }
        }
    }
}
