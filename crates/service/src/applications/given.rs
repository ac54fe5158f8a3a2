//! What a cluster gives to reach repositories with, and which projects are global: the Secrets and ConfigMaps that Argo CD keeps in its
//! namespace, watched.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, select};
use ractor::ActorRef;
use tidegate_cluster::{Cluster, ClusterError, Detail, ErrorKind, Followed, Pauses, Scope, follow};
use tidegate_model::{Gvk, Object, ObjectKey};
use tidegate_source::Credentials;

use super::messages::SupervisorMessage;
use super::projects::globals::{Globals, GlobalsTold};
use super::shared::Shared;

/// How long to wait before they are listed anew.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// The kind of what holds settings.
const SETTINGS: &str = "ConfigMap";
/// Kinds of objects that say how repositories are reached.
const KINDS: [&str; 2] = ["Secret", SETTINGS];

/// The objects of a namespace that say how repositories are reached and which projects are global; others are let go at once.
#[derive(Default)]
pub(crate) struct Given {
    objects: BTreeMap<ObjectKey, Object>,
    /// The settings were not seen, and it is not said that they may not be.
    is_waited_for: bool,
}

fn is_kept(object: &Object) -> bool {
    Credentials::is_said_by(object) || Globals::is_said_by(object)
}

impl Given {
    /// Takes in what has happened; whether it makes a difference.
    fn happened(&mut self, kind: &str, what: Followed) -> bool {
        let is_seen = match &what {
            Followed::Listed(_) => true,
            Followed::Failing(error) => is_answer(error),
            Followed::Applied(_) | Followed::Deleted(_) => false,
        };
        let is_news = kind == SETTINGS && is_seen && std::mem::take(&mut self.is_waited_for);
        self.take(kind, what) || is_news
    }

    fn take(&mut self, kind: &str, what: Followed) -> bool {
        match what {
            Followed::Listed(objects) => {
                let kept = self.objects.iter().filter(|(key, _)| key.kind != kind);
                let mut now: BTreeMap<_, _> =
                    kept.map(|(key, object)| (key.clone(), object.clone())).collect();
                now.extend(objects.into_iter().filter(is_kept).map(|one| (one.key(), one)));
                let is_new = !now.iter().map(said).eq(self.objects.iter().map(said));
                self.objects = now;
                is_new
            }
            Followed::Applied(object) if is_kept(&object) => {
                let key = object.key();
                let before = self.objects.insert(key.clone(), object);
                self.objects.get(&key).map(content) != before.as_ref().map(content)
            }
            // One that has lost its label is no more of them.
            Followed::Applied(object) | Followed::Deleted(object) => {
                self.objects.remove(&object.key()).is_some()
            }
            Followed::Failing(_) => false,
        }
    }

    /// Which projects are global.
    pub(crate) fn globals(&self) -> Globals {
        match self.objects.values().find(|object| Globals::is_said_by(object)) {
            _ if self.is_waited_for => Globals::Unseen,
            Some(object) => Globals::of(object),
            None => Globals::default(),
        }
    }

    /// What all of them say, and what of them cannot be used: it costs those alone that need it.
    fn credentials(&self) -> (Credentials, Vec<String>) {
        let (mut credentials, mut problems) = (Credentials::default(), Vec::new());
        for object in self.objects.values() {
            problems.extend(credentials.add(object).err().map(|error| error.to_string()));
        }
        (credentials, problems)
    }
}

/// Its data, the data that is still to be encoded, and what its label says it is.
type Content<'o> = (Option<&'o serde_json::Value>, Option<&'o serde_json::Value>, Option<&'o str>);

/// What counts of an object: its version changes with every write of somebody else's field.
fn content(object: &Object) -> Content<'_> {
    if Globals::is_said_by(object) {
        return (Globals::content(object), None, None);
    }
    let value = object.as_value();
    (value.get("data"), value.get("stringData"), object.label(Credentials::LABEL))
}

fn said<'o>((key, object): (&'o ObjectKey, &'o Object)) -> (&'o ObjectKey, Content<'o>) {
    (key, content(object))
}

/// Whether there is nothing to wait for: who may not read settings was never told to follow them.
fn is_answer(error: &ClusterError) -> bool {
    matches!(error.kind, ErrorKind::Forbidden | ErrorKind::UnknownKind)
}

fn scope(kind: &str, namespace: &str) -> Scope {
    Scope { gvk: Gvk::new("", "v1", kind), namespace: Some(namespace.to_owned()), detail: Detail::Full }
}

/// What is there now. What cannot be listed is told, and comes later, if it does.
pub(crate) async fn list(cluster: &dyn Cluster, namespace: &str) -> Given {
    let mut given = Given { is_waited_for: true, ..Given::default() };
    for kind in KINDS {
        let listed = cluster.list(&scope(kind, namespace)).await;
        if let Err(error) = &listed {
            tracing::warn!(
                namespace, kind, %error,
                "what the cluster gives to reach repositories with cannot be listed; it is asked again"
            );
        }
        let what = listed.map_or_else(Followed::Failing, |listing| Followed::Listed(listing.objects));
        given.happened(kind, what);
    }
    given
}

/// What they say, whenever that has changed. It never ends.
fn changes(
    cluster: &Arc<dyn Cluster>,
    namespace: String,
    given: Given,
) -> BoxStream<'static, (Credentials, Globals)> {
    let of = |kind: &'static str| {
        follow(Arc::clone(cluster), scope(kind, &namespace), PAUSES).map(move |what| (kind, what)).boxed()
    };
    let [secrets, maps] = KINDS;
    let followed = select(of(secrets), of(maps));
    let told = followed.scan(given, move |given, (kind, what)| {
        if let Followed::Failing(error) = &what {
            tracing::info!(namespace, kind, %error, "what the cluster gives to reach repositories with is not told; it is asked again");
        }
        ready(Some(given.happened(kind, what).then(|| (said_by(given), given.globals()))))
    });
    told.filter_map(ready).boxed()
}

/// Has repositories looked at again whenever that has changed: what was refused before may be open now, and the other way
/// round. It never ends.
pub(crate) async fn hear(
    cluster: Arc<dyn Cluster>,
    namespace: String,
    given: Given,
    shared: Arc<Shared>,
    to: ActorRef<SupervisorMessage>,
) {
    let mut before = said_by(&given).by_project();
    let mut told = changes(&cluster, namespace, given);
    while let Some((credentials, globals)) = told.next().await {
        drop(to.send_message(SupervisorMessage::Globals(GlobalsTold::Cluster(globals))));
        let own = credentials.by_project();
        let is_other = |name: &&String| before.get(*name) != own.get(*name);
        let others: BTreeSet<_> = before.keys().chain(own.keys()).filter(is_other).cloned().collect();
        shared.manifests.give(credentials);
        if !others.is_empty() {
            drop(to.send_message(SupervisorMessage::OwnRepositories(others)));
        }
        before = own;
        shared.tell_moved(shared.manifests.look(None).await, None);
    }
}

/// What they say.
pub(crate) fn said_by(given: &Given) -> Credentials {
    let (credentials, problems) = given.credentials();
    problems
        .iter()
        .for_each(|problem| tracing::warn!(problem, "what is given for a repository cannot be used"));
    credentials
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::{Value, json};
    use tidegate_model::argo::AppProject;

    use super::*;

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    fn secret(name: &str, kind: Option<&str>, password: &str) -> Object {
        let mut value = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "argocd"},
            "stringData": {"url": format!("https://example.com/{name}"), "password": password},
        });
        if let Some(kind) = kind {
            value["metadata"]["labels"] = json!({"argocd.argoproj.io/secret-type": kind});
        }
        object(value)
    }

    #[test]
    fn only_what_is_about_repositories_is_kept_and_told() {
        let mut given = Given::default();
        let repository = || secret("a", Some("repository"), "one");
        for (what, expected) in [
            (Followed::Listed(vec![repository(), secret("other", None, "x")]), true),
            (Followed::Listed(vec![repository()]), false),
            (Followed::Applied(repository()), false),
            (Followed::Applied(secret("a", Some("repository"), "two")), true),
            (Followed::Applied(secret("other", None, "y")), false),
            (Followed::Applied(secret("b", Some("repo-creds"), "three")), true),
            (Followed::Applied(secret("cluster", Some("cluster"), "four")), false),
            (Followed::Applied(secret("b", None, "three")), true),
            (Followed::Deleted(secret("b", None, "three")), false),
            (Followed::Listed(vec![]), true),
        ] {
            let told = format!("{what:?}");
            assert_eq!(given.happened("Secret", what), expected, "{told}");
        }
        let hosts = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-ssh-known-hosts-cm", "namespace": "argocd"},
            "data": {"ssh_known_hosts": "example.com ssh-ed25519 AAAA"},
        }));
        assert!(given.happened("ConfigMap", Followed::Listed(vec![hosts])));
        // A list of one kind says nothing of the other.
        assert!(given.happened("Secret", Followed::Listed(vec![repository()])));
        assert_eq!(given.objects.len(), 2);
    }

    #[test]
    fn global_projects_are_waited_for_unless_nobody_may_read_them() {
        let about =
            |given: &Given| given.globals().about(&AppProject::default()).map(|names| names.join(" "));
        let failing = |kind| Followed::Failing(ClusterError::new(kind, "no"));
        let settings = |more: &str| {
            object(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"},
                "data": {"globalProjects": "[{projectName: platform}]", "other": more},
            }))
        };
        let waiting = || Given { is_waited_for: true, ..Given::default() };
        let mut given = waiting();
        assert!(!given.happened(SETTINGS, failing(ErrorKind::Unavailable)));
        // What is said of the other kind says nothing of this one.
        assert!(!given.happened("Secret", failing(ErrorKind::Forbidden)));
        assert!(about(&given).unwrap_err().contains("not seen yet"));
        assert!(given.happened(SETTINGS, Followed::Listed(vec![settings("a")])));
        assert_eq!(about(&given), Ok("platform".to_owned()));
        assert!(!given.happened(SETTINGS, Followed::Applied(settings("b"))), "what counts is the same");
        assert!(given.happened(SETTINGS, Followed::Deleted(settings("b"))));
        assert_eq!(about(&given), Ok(String::new()));
        let mut given = waiting();
        assert!(given.happened(SETTINGS, failing(ErrorKind::Forbidden)));
        assert_eq!(about(&given), Ok(String::new()));
    }

    #[test]
    fn what_cannot_be_used_costs_nothing_else() {
        let mut given = Given::default();
        let mut broken = secret("broken", Some("repository"), "x").as_value().clone();
        broken["data"] = json!({"password": "hunter2 ?"});
        let all = vec![object(broken), secret("a", Some("repository"), "one")];
        given.happened("Secret", Followed::Listed(all));
        let (credentials, problems) = given.credentials();
        let mut expected = Credentials::default();
        expected.add(&secret("a", Some("repository"), "one")).unwrap();
        assert_eq!(credentials, expected);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("argocd/broken") && !problems[0].contains("hunter2"), "{problems:?}");
    }
}
