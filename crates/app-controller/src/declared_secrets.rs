//! Repository credentials and global projects from the cluster, based on watches for the Secrets and
//! ConfigMaps in Argo CD's namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, select};
use ractor::ActorRef;
use tidegate_cluster::{
    Cluster, ClusterError, Detail, ErrorKind, Scope, ScopeChange, WatchBackoff, list_and_watch,
};
use tidegate_model::{Gvk, Object, ObjectKey};
use tidegate_source::Credentials;

use super::messages::SupervisorMessage;
use super::projects::global_project_settings::{GlobalProjects, GlobalProjectsUpdate};
use super::shared_state::SharedState;

/// Delays before listing the objects again.
const RELIST_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// Kind of objects that contain settings.
const SETTINGS_KIND: &str = "ConfigMap";
/// Watched kinds.
const WATCHED_KINDS: [&str; 2] = ["Secret", SETTINGS_KIND];

/// A namespace's objects that contain repository credentials or the list of global projects. Other objects
/// are discarded immediately.
#[derive(Default)]
pub struct DeclaredSecrets {
    objects: BTreeMap<ObjectKey, Object>,
    /// True until the settings have been listed or access to them was denied.
    is_awaited: bool,
}

fn is_relevant(object: &Object) -> bool {
    Credentials::has_credentials(object) || GlobalProjects::is_set_in(object)
}

impl DeclaredSecrets {
    /// Applies a watch event. Returns true if anything relevant has changed.
    fn apply_event(&mut self, kind: &str, what: ScopeChange) -> bool {
        let is_seen = match &what {
            ScopeChange::Listed(_) => true,
            ScopeChange::Failing(error) => is_final(error),
            ScopeChange::Applied(_) | ScopeChange::Deleted(_) => false,
        };
        let is_news = kind == SETTINGS_KIND && is_seen && std::mem::take(&mut self.is_awaited);
        self.update_objects(kind, what) || is_news
    }

    fn update_objects(&mut self, kind: &str, what: ScopeChange) -> bool {
        match what {
            ScopeChange::Listed(objects) => {
                let others = self.objects.iter().filter(|(key, _)| key.kind != kind);
                let mut now: BTreeMap<_, _> =
                    others.map(|(key, object)| (key.clone(), object.clone())).collect();
                now.extend(objects.into_iter().filter(is_relevant).map(|one| (one.key(), one)));
                let is_new = !now.iter().map(keyed_content).eq(self.objects.iter().map(keyed_content));
                self.objects = now;
                is_new
            }
            ScopeChange::Applied(object) if is_relevant(&object) => {
                let key = object.key();
                let before = self.objects.insert(key.clone(), object);
                self.objects.get(&key).map(object_content) != before.as_ref().map(object_content)
            }
            // An object that has lost the label is no longer used.
            ScopeChange::Applied(object) | ScopeChange::Deleted(object) => {
                self.objects.remove(&object.key()).is_some()
            }
            ScopeChange::Failing(_) => false,
        }
    }

    /// Returns the global projects.
    pub fn global_projects(&self) -> GlobalProjects {
        match self.objects.values().find(|object| GlobalProjects::is_set_in(object)) {
            _ if self.is_awaited => GlobalProjects::Unread,
            Some(object) => GlobalProjects::from_object(object),
            None => GlobalProjects::default(),
        }
    }

    /// Returns the credentials from all objects, and problems with objects that can't be used. A problem
    /// affects only the repositories that the object applies to.
    fn credentials(&self) -> (Credentials, Vec<String>) {
        let (mut credentials, mut problems) = (Credentials::default(), Vec::new());
        for object in self.objects.values() {
            problems.extend(credentials.add(object).err().map(|error| error.to_string()));
        }
        (credentials, problems)
    }
}

/// `data` and `stringData` of an object, and the value of its type label.
type ObjectContent<'o> = (Option<&'o serde_json::Value>, Option<&'o serde_json::Value>, Option<&'o str>);

/// Returns an object's relevant content. Comparing the resource version isn't sufficient, because writes to
/// other fields change it, too.
fn object_content(object: &Object) -> ObjectContent<'_> {
    if GlobalProjects::is_set_in(object) {
        return (GlobalProjects::setting_of(object), None, None);
    }
    let value = object.as_value();
    (value.get("data"), value.get("stringData"), object.label(Credentials::LABEL))
}

fn keyed_content<'o>((key, object): (&'o ObjectKey, &'o Object)) -> (&'o ObjectKey, ObjectContent<'o>) {
    (key, object_content(object))
}

/// Returns true if retrying won't help, because access to the settings is denied.
fn is_final(error: &ClusterError) -> bool {
    matches!(error.kind, ErrorKind::Forbidden | ErrorKind::UnknownKind)
}

fn scope(kind: &str, namespace: &str) -> Scope {
    Scope { gvk: Gvk::new("", "v1", kind), namespace: Some(namespace.to_owned()), detail: Detail::Full }
}

/// Lists the current objects. Logs a warning for each list that fails. The watch tries again later.
pub async fn list_objects(cluster: &dyn Cluster, namespace: &str) -> DeclaredSecrets {
    let mut secrets = DeclaredSecrets { is_awaited: true, ..DeclaredSecrets::default() };
    for kind in WATCHED_KINDS {
        let listed = cluster.list(&scope(kind, namespace)).await;
        if let Err(error) = &listed {
            tracing::warn!(
                namespace, kind, %error,
                "failed to list repository credentials in the cluster; retrying"
            );
        }
        let what = listed.map_or_else(ScopeChange::Failing, |listing| ScopeChange::Listed(listing.objects));
        secrets.apply_event(kind, what);
    }
    secrets
}

/// Returns a stream that yields the credentials and global projects after each change. Never ends.
fn watch_credentials(
    cluster: &Arc<dyn Cluster>,
    namespace: String,
    given: DeclaredSecrets,
) -> BoxStream<'static, (Credentials, GlobalProjects)> {
    let of = |kind: &'static str| {
        list_and_watch(Arc::clone(cluster), scope(kind, &namespace), RELIST_DELAYS)
            .map(move |what| (kind, what))
            .boxed()
    };
    let [secrets, maps] = WATCHED_KINDS;
    let followed = select(of(secrets), of(maps));
    let updates = followed.scan(given, move |given, (kind, what)| {
        if let ScopeChange::Failing(error) = &what {
            tracing::info!(namespace, kind, %error, "failed to watch repository credentials in the cluster; retrying");
        }
        ready(Some(given.apply_event(kind, what).then(|| (usable_credentials(given), given.global_projects()))))
    });
    updates.filter_map(ready).boxed()
}

/// Applies each change, and then observes all repositories again, because the change may grant or revoke
/// access to them. Never returns.
pub async fn apply_changes(
    cluster: Arc<dyn Cluster>,
    namespace: String,
    secrets: DeclaredSecrets,
    shared: Arc<SharedState>,
    to: ActorRef<SupervisorMessage>,
) {
    let mut before = usable_credentials(&secrets).addresses_by_project();
    let mut updates = watch_credentials(&cluster, namespace, secrets);
    while let Some((credentials, globals)) = updates.next().await {
        drop(
            to.send_message(SupervisorMessage::GlobalProjectsChanged(GlobalProjectsUpdate::Cluster(globals))),
        );
        let own = credentials.addresses_by_project();
        let is_other = |name: &&String| before.get(*name) != own.get(*name);
        let others: BTreeSet<_> = before.keys().chain(own.keys()).filter(is_other).cloned().collect();
        shared.manifests.set_credentials(credentials);
        if !others.is_empty() {
            drop(to.send_message(SupervisorMessage::ProjectRepositoriesChanged(others)));
        }
        before = own;
        shared.notify_changed_repositories(shared.manifests.observe(None).await, None);
    }
}

/// Returns the valid credentials, and logs a warning for each invalid object.
pub fn usable_credentials(secrets: &DeclaredSecrets) -> Credentials {
    let (credentials, problems) = secrets.credentials();
    problems.iter().for_each(|problem| tracing::warn!(problem, "invalid repository credentials"));
    credentials
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
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
    fn only_objects_about_repositories_are_stored_and_reported() {
        let mut secrets = DeclaredSecrets::default();
        let repository = || secret("a", Some("repository"), "one");
        for (what, expected) in [
            (ScopeChange::Listed(vec![repository(), secret("other", None, "x")]), true),
            (ScopeChange::Listed(vec![repository()]), false),
            (ScopeChange::Applied(repository()), false),
            (ScopeChange::Applied(secret("a", Some("repository"), "two")), true),
            (ScopeChange::Applied(secret("other", None, "y")), false),
            (ScopeChange::Applied(secret("b", Some("repo-creds"), "three")), true),
            (ScopeChange::Applied(secret("cluster", Some("cluster"), "four")), false),
            (ScopeChange::Applied(secret("b", None, "three")), true),
            (ScopeChange::Deleted(secret("b", None, "three")), false),
            (ScopeChange::Listed(vec![]), true),
        ] {
            let text = format!("{what:?}");
            assert_eq!(secrets.apply_event("Secret", what), expected, "{text}");
        }
        let hosts = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-ssh-known-hosts-cm", "namespace": "argocd"},
            "data": {"ssh_known_hosts": "example.com ssh-ed25519 AAAA"},
        }));
        assert!(secrets.apply_event("ConfigMap", ScopeChange::Listed(vec![hosts])));
        // Listing one kind doesn't affect the other kind.
        assert!(secrets.apply_event("Secret", ScopeChange::Listed(vec![repository()])));
        assert_eq!(secrets.objects.len(), 2);
    }

    #[test]
    fn global_projects_are_awaited_unless_access_is_denied() {
        let about = |secrets: &DeclaredSecrets| {
            secrets.global_projects().inherited_by(&AppProject::default()).map(|names| names.join(" "))
        };
        let failing = |kind| ScopeChange::Failing(ClusterError::new(kind, "no"));
        let settings = |more: &str| {
            object(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": "argocd"},
                "data": {"globalProjects": "[{projectName: platform}]", "other": more},
            }))
        };
        let waiting = || DeclaredSecrets { is_awaited: true, ..DeclaredSecrets::default() };
        let mut secrets = waiting();
        assert!(!secrets.apply_event(SETTINGS_KIND, failing(ErrorKind::Unavailable)));
        // An error for the other kind doesn't affect the settings.
        assert!(!secrets.apply_event("Secret", failing(ErrorKind::Forbidden)));
        assert!(about(&secrets).unwrap_err().contains("not been read yet"));
        assert!(secrets.apply_event(SETTINGS_KIND, ScopeChange::Listed(vec![settings("a")])));
        assert_eq!(about(&secrets), Ok("platform".to_owned()));
        assert!(
            !secrets.apply_event(SETTINGS_KIND, ScopeChange::Applied(settings("b"))),
            "the effective settings are the same"
        );
        assert!(secrets.apply_event(SETTINGS_KIND, ScopeChange::Deleted(settings("b"))));
        assert_eq!(about(&secrets), Ok(String::new()));
        let mut secrets = waiting();
        assert!(secrets.apply_event(SETTINGS_KIND, failing(ErrorKind::Forbidden)));
        assert_eq!(about(&secrets), Ok(String::new()));
    }

    #[test]
    fn an_unusable_object_does_not_affect_others() {
        let mut secrets = DeclaredSecrets::default();
        let mut broken = secret("broken", Some("repository"), "x").as_value().clone();
        broken["data"] = json!({"password": "hunter2 ?"});
        let all = vec![object(broken), secret("a", Some("repository"), "one")];
        secrets.apply_event("Secret", ScopeChange::Listed(all));
        let (credentials, problems) = secrets.credentials();
        let mut expected = Credentials::default();
        expected.add(&secret("a", Some("repository"), "one")).unwrap();
        assert_eq!(credentials, expected);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("argocd/broken") && !problems[0].contains("hunter2"), "{problems:?}");
    }
}
