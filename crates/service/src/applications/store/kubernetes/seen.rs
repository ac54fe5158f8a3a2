//! What was seen and written of each resource of a kind, and what of that is news.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use serde_json::{Map, Value};
use tidegate_model::annotations::{DELETION_APPROVED, DELETION_REQUESTED_BY, SERVICE_MANAGER};
use tidegate_model::{Object, managed_fields};

use super::{MANAGED_LABEL, Reach};
use crate::applications::store::AppKey;

/// What servers write into metadata by themselves.
const BY_SERVERS: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// A kind of resource that is served, and what is told of it.
pub(crate) trait Served: Send + 'static {
    /// What is told.
    type Event: Send + 'static;
    /// `kind` of the resources.
    const KIND: &'static str;
    /// What one is called in messages.
    const NOUN: &'static str;
    /// The annotation that asks for one to be looked at anew.
    const REFRESH: &'static str;

    /// Whether a finalizer is one that those who serve the kind put on and take off.
    fn is_own_finalizer(finalizer: &str) -> bool;
    /// A resource is like this. `good`: as it was when it could be read last, where it is another now.
    ///
    /// # Errors
    ///
    /// It cannot be read, and could not before: why.
    fn applied(object: &Object, good: Option<&Object>, asked: Asked) -> Result<Self::Event, String>;
    /// Whether something is under way that was begun while a resource was served.
    fn is_under_way(_: &Object) -> bool {
        false
    }
    /// The same event, of a resource that is served no longer than that takes.
    fn ending(event: Self::Event) -> Self::Event {
        event
    }
    /// Somebody else has changed what those wrote who serve the kind, if that is told.
    fn overwritten(_: AppKey, _: Overwritten) -> Option<Self::Event> {
        None
    }
    /// A resource is gone.
    fn gone(key: AppKey) -> Self::Event;
    /// Resources cannot be read, for these reasons.
    fn problems(problems: Vec<String>) -> Self::Event;
    /// All there were at the beginning were told.
    fn settled() -> Self::Event;
}

/// Whose is the operation that a resource asks for?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The resource was never told before.
    AtFirst,
    /// Somebody else's, which was not told before.
    Anew,
    /// It is known to whoever serves the resource.
    Before,
}

/// What somebody else has written over what is known of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overwritten {
    /// The operation whose phase is `Terminating` now, as the status has it.
    pub ended: Option<Value>,
}

/// All resources of a kind.
pub(crate) struct All<K> {
    pub(super) reach: Reach,
    pub(super) seen: BTreeMap<AppKey, Seen>,
    /// The namespaces whose list has not come yet; empty for the one of all namespaces.
    pending: BTreeSet<Option<String>>,
    settled: bool,
    /// Why resources cannot be read, and were never told.
    unread: BTreeMap<AppKey, String>,
    /// Why it is not known what there is in a namespace, or in all.
    unseen: BTreeMap<Option<String>, String>,
    kind: PhantomData<fn() -> K>,
}

/// One resource.
pub(super) struct Seen {
    /// As it was last read or written, without what each field's manager is.
    pub(super) object: Object,
    /// The part that others write, as its actor was told.
    told: Object,
    /// The version that was told.
    told_version: String,
    /// As it was when it could be read last, if it is another now.
    good: Option<Object>,
    /// Who has written the annotation that confirms deletions, as it was watched last.
    approver: Option<String>,
    /// The refresh that is asked for, as its actor was told.
    refresh: Option<String>,
    /// The version with which that was told: an actor may have it in its mailbox still.
    refresh_version: u64,
    /// The operation, as its actor was told or has written it.
    pub(super) operation: Option<Value>,
    /// The operation that is on its way there: the watch may show it before that is answered.
    pub(super) writing: Option<Value>,
    /// The status that is on its way there.
    pub(super) writing_status: Option<Value>,
    /// What somebody else has changed of what is known, and was not told yet.
    overwritten: Option<Overwritten>,
}

impl<K: Served> All<K> {
    pub fn new(reach: Reach) -> Self {
        let pending = match reach.namespaces.is_empty() {
            true => BTreeSet::from([None]),
            false => reach.namespaces.iter().cloned().map(Some).collect(),
        };
        Self {
            reach,
            seen: BTreeMap::new(),
            pending,
            settled: false,
            unread: BTreeMap::new(),
            unseen: BTreeMap::new(),
            kind: PhantomData,
        }
    }

    /// These are all there are in a namespace, or in all.
    pub fn listed(&mut self, namespace: Option<String>, objects: Vec<Object>) -> Vec<K::Event> {
        let listed: BTreeSet<AppKey> = objects.iter().map(AppKey::of_object).collect();
        let is_meant = |key: &&AppKey| namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace);
        let known = self.seen.keys().chain(self.unread.keys());
        let gone: BTreeSet<AppKey> =
            known.filter(is_meant).filter(|key| !listed.contains(*key)).cloned().collect();
        let mut events: Vec<K::Event> = gone.into_iter().flat_map(|key| self.gone(key)).collect();
        if self.unseen.remove(&namespace).is_some() {
            events.push(self.problems());
        }
        events.extend(objects.into_iter().flat_map(|object| self.applied(object)));
        events.extend(self.answered(&namespace));
        events
    }

    /// It is not to be known what there is in a namespace, or in all: for this reason, if it is one that people should
    /// mend. Nobody waits for it, and what was told stays as it was.
    pub fn refused(&mut self, namespace: Option<String>, why: Option<String>) -> Vec<K::Event> {
        let before = match why {
            Some(why) => self.unseen.insert(namespace.clone(), why),
            None => self.unseen.remove(&namespace),
        };
        let is_news = before.as_ref() != self.unseen.get(&namespace);
        let mut events: Vec<K::Event> = is_news.then(|| self.problems()).into_iter().collect();
        events.extend(self.answered(&namespace));
        events
    }

    /// It is known what there is in a namespace, or in all.
    fn answered(&mut self, namespace: &Option<String>) -> Option<K::Event> {
        self.pending.remove(namespace);
        let is_news = self.pending.is_empty() && !self.settled;
        self.settled |= is_news;
        is_news.then(K::settled)
    }

    pub fn applied(&mut self, mut object: Object) -> Vec<K::Event> {
        let key = AppKey::of_object(&object);
        let is_ours = !self.reach.only_labelled || object.label(MANAGED_LABEL) == Some("true");
        if !is_ours && !K::is_under_way(&object) {
            return self.gone(key);
        }
        let told = |event| if is_ours { event } else { K::ending(event) };
        let approver = approver(&object);
        object.metadata_mut().remove("managedFields");
        let mut events = Vec::new();
        if let Some(seen) = self.seen.get_mut(&key) {
            if seen.object.uid() == object.uid() {
                seen.approver = approver;
                seen.look_for_others(&object);
                let changed = seen.changed::<K>(object);
                let overwritten = seen.overwritten.take().and_then(|what| K::overwritten(key, what));
                return overwritten.into_iter().chain(changed.map(told)).collect();
            }
            // Another one of its name.
            events = self.gone(key.clone());
        }
        match K::applied(&object, None, Asked::AtFirst) {
            Ok(event) => {
                events.extend(self.is_read(&key));
                events.push(told(event));
                self.seen.insert(key, Seen { approver, ..Seen::new::<K>(object) });
            }
            Err(problem) => {
                if self.unread.insert(key, problem.clone()) != Some(problem) {
                    events.push(self.problems());
                }
            }
        }
        events
    }

    pub fn deleted(&mut self, object: &Object) -> Vec<K::Event> {
        let key = AppKey::of_object(object);
        // It may have been made again already.
        let is_another = self.seen.get(&key).is_some_and(|seen| seen.object.uid() != object.uid());
        if is_another { Vec::new() } else { self.gone(key) }
    }

    fn gone(&mut self, key: AppKey) -> Vec<K::Event> {
        let unread = self.is_read(&key);
        unread.into_iter().chain(self.seen.remove(&key).map(|_| K::gone(key))).collect()
    }

    /// Nothing is wrong with it any more.
    fn is_read(&mut self, key: &AppKey) -> Option<K::Event> {
        self.unread.remove(key).map(|_| self.problems())
    }

    fn problems(&self) -> K::Event {
        K::problems(self.unseen.values().chain(self.unread.values()).cloned().collect())
    }

    /// The resource with these of our finalizers, and those that others have put there. `None` where it has them.
    pub fn with_finalizers(&self, key: &AppKey, wanted: &[String]) -> Option<Object> {
        let seen = self.seen.get(key)?;
        let found = finalizers(&seen.object);
        let mut finalizers = found.clone();
        finalizers.retain(|one| !K::is_own_finalizer(one) || wanted.contains(one));
        // Nobody may add one to what is being deleted.
        let new = wanted.iter().filter(|one| K::is_own_finalizer(one) && !found.contains(one));
        finalizers.extend(new.filter(|_| !seen.object.is_deleting()).cloned());
        if finalizers == found {
            return None;
        }
        let mut object = seen.object.clone();
        object.metadata_mut().insert("finalizers".to_owned(), finalizers.into());
        Some(object)
    }

    /// The resource, changed in another way already or not, with who has asked for its deletion. `None` where nothing is new.
    pub fn with_asker(&self, key: &AppKey, changed: Option<Object>, asker: Option<&str>) -> Option<Object> {
        let known = changed.as_ref().or_else(|| Some(&self.seen.get(key)?.object))?;
        let asker = asker.filter(|asker| known.annotation(DELETION_REQUESTED_BY) != Some(*asker));
        let Some(asker) = asker else { return changed };
        let mut object = known.clone();
        object.set_annotation(DELETION_REQUESTED_BY, asker);
        Some(object)
    }

    /// It has been written, and is so now; with its operation, or as far as that was known.
    pub fn written(&mut self, key: &AppKey, has_operation: bool, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(seen) = self.seen.get_mut(key).filter(|seen| seen.object.uid() == object.uid()) {
            if has_operation || seen.operation == operation(&seen.object) {
                seen.operation = operation(&object);
            }
            if refresh::<K>(&object).is_none() {
                seen.refresh = None;
            }
            seen.writing_status = None;
            seen.take(object);
        }
    }

    /// Who has confirmed by an annotation what is deleted of it, as far as the cluster says that.
    pub fn approver(&self, key: &AppKey) -> Option<&str> {
        self.seen.get(key)?.approver.as_deref()
    }

    /// As it was last read or written.
    pub fn object(&self, key: &AppKey) -> Option<&Object> {
        self.seen.get(key).map(|seen| &seen.object)
    }

    /// Takes away from a resource the request for a refresh that was told; one that has come since asks again.
    pub fn strike_refresh(&self, key: &AppKey, object: &mut Object) {
        if let Some(seen) = self.seen.get(key) {
            seen.strike_refresh::<K>(object);
        }
    }

    /// Somebody else has written it, and it is so now. What is news in it comes by the watch.
    pub fn read_anew(&mut self, key: &AppKey, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(seen) = self.seen.get_mut(key).filter(|seen| seen.object.uid() == object.uid()) {
            seen.look_for_others(&object);
            seen.take(object);
        }
    }
}

impl Seen {
    /// One that is told now.
    fn new<K: Served>(object: Object) -> Self {
        Self {
            told: others::<K>(&object),
            told_version: object.resource_version().to_owned(),
            good: None,
            approver: None,
            refresh: refresh::<K>(&object),
            refresh_version: version(&object),
            operation: operation(&object),
            writing: None,
            writing_status: None,
            overwritten: None,
            object,
        }
    }

    /// Watches may show what is older than what was written.
    fn take(&mut self, object: Object) {
        if version(&object) >= version(&self.object) {
            self.object = object;
        }
    }

    /// Whether somebody else has changed the status, or taken the operation away, in an object that the cluster shows now.
    fn look_for_others(&mut self, object: &Object) {
        let (now, before) = (object.pointer("/status"), self.object.pointer("/status"));
        if version(object) <= version(&self.object) || now.is_some() && now == self.writing_status.as_ref() {
            return;
        }
        let is_asked_no_more = self.operation.is_some() && operation(object).is_none();
        if now == before && !is_asked_no_more {
            return;
        }
        let ended = ended(object).filter(|_| ended(&self.object).is_none());
        let told = self.overwritten.get_or_insert_default();
        told.ended = told.ended.take().or(ended);
    }

    /// What is news in an object that the cluster shows.
    fn changed<K: Served>(&mut self, object: Object) -> Option<K::Event> {
        if version(&object) < version(&self.object) {
            return None;
        }
        let (told, asked) = (others::<K>(&object), operation(&object));
        if asked.is_some() && asked == self.writing {
            self.operation.clone_from(&asked);
        }
        let is_asked = asked.is_some() && asked != self.operation;
        let refresh = refresh::<K>(&object);
        let is_refresh = refresh.is_some() && refresh != self.refresh;
        let is_news = told != self.told || is_asked || is_refresh;
        if is_refresh {
            self.refresh_version = version(&object);
        }
        if is_asked {
            self.operation = asked;
        }
        (self.told, self.refresh) = (told, refresh);
        let before = std::mem::replace(&mut self.object, object);
        if !is_news {
            return None;
        }
        self.object.resource_version().clone_into(&mut self.told_version);
        let asked = if is_asked { Asked::Anew } else { Asked::Before };
        if let Ok(event) = K::applied(&self.object, None, asked) {
            self.good = None;
            return Some(event);
        }
        let good = self.good.get_or_insert(before);
        K::applied(&self.object, Some(good), asked).ok()
    }

    /// Whether it is as it was told with a version, apart from what those write who serve it.
    pub(super) fn is_as_told<K: Served>(&self, version: &str) -> bool {
        self.told_version == version && others::<K>(&self.object) == self.told
    }

    /// Takes away the request for a refresh that was told; one that has come since asks again.
    pub(super) fn strike_refresh<K: Served>(&self, object: &mut Object) {
        if self.refresh == refresh::<K>(object) {
            object.remove_annotation(K::REFRESH);
        }
    }

    /// Whether whoever has taken in this version has taken in as well that a refresh is asked for.
    pub(super) fn has_told_refresh(&self, version: &str) -> bool {
        number(version) >= self.refresh_version
    }

    /// Whether the operation in it is one that somebody has asked for since.
    pub(super) fn is_asked_by_others(&self) -> bool {
        operation(&self.object) != self.operation
    }
}

pub(crate) fn set(fields: &mut Map<String, Value>, name: &str, value: Option<&impl serde::Serialize>) {
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

pub(super) fn finalizers(object: &Object) -> Vec<String> {
    let found = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    found.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Versions of one object are compared as numbers, which all servers give.
fn version(object: &Object) -> u64 {
    number(object.resource_version())
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(u64::MAX)
}

/// The operation that is to end, by the phase in a status.
fn ended(object: &Object) -> Option<Value> {
    let state = object.pointer("/status/operationState")?;
    let is_ended = state.get("phase")? == "Terminating" && state.get("finishedAt").is_none();
    is_ended.then(|| state.get("operation").cloned().unwrap_or_default())
}

/// Who has written the phase of an operation last, as the server names managers; nobody where we have.
pub(super) fn writer_of_phase(object: &Object) -> Option<String> {
    writer_of(object, &["f:status", "f:operationState", "f:phase"])
}

/// The same of the annotation that confirms deletions.
fn approver(object: &Object) -> Option<String> {
    object.annotation(DELETION_APPROVED)?;
    writer_of(object, &["f:metadata", "f:annotations", &format!("f:{DELETION_APPROVED}")])
}

/// Who has written a field last, by its path in `managedFields`; nobody where we have.
fn writer_of(object: &Object, path: &[&str]) -> Option<String> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?.iter().filter(|entry| {
        let fields = managed_fields(entry).unwrap_or_default();
        let (first, rest) = path.split_first().unwrap_or((&"", &[]));
        let found = rest.iter().try_fold(fields.get(*first), |part, name| Some(part?.get(*name)));
        found.flatten().is_some()
    });
    let newest = entries.max_by_key(|entry| entry.get("time").and_then(Value::as_str))?;
    newest.get("manager").and_then(Value::as_str).filter(|one| *one != SERVICE_MANAGER).map(str::to_owned)
}

fn refresh<K: Served>(object: &Object) -> Option<String> {
    object.annotation(K::REFRESH).map(str::to_owned)
}

pub(super) fn operation(object: &Object) -> Option<Value> {
    object.pointer("/operation").cloned()
}

/// What others write: everything but what is known of it, what is asked, and what servers count.
fn others<K: Served>(object: &Object) -> Object {
    let mut object = object.clone();
    object.fields_mut().remove("status");
    object.fields_mut().remove("operation");
    object.remove_annotation(K::REFRESH);
    let metadata = object.metadata_mut();
    BY_SERVERS.iter().for_each(|field| drop(metadata.remove(*field)));
    if metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty) {
        metadata.remove("annotations");
    }
    object
}
