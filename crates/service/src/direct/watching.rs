//! Applications that somebody waits for: read when a watch tells that they have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll, select_all};
use tidegate_cluster::{Detail, ErrorKind, Followed, Pauses, Scope, follow};
use tidegate_model::Object;
use tidegate_model::argo::Application;
use tokio::time::Instant;

use super::{Direct, Resource};
use crate::applications::store::AppKey;
use crate::applications::store::kubernetes::Applications;
use crate::applications::store::kubernetes::site::kind;
use crate::error::ServiceError;
use crate::notices::Notices;

/// How long until they are listed anew where the cluster could not tell of them.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(5) };
/// How often they are read where they may not be watched.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Whoever waits looks again after so long though nothing has changed: what has not come by then is worth a word.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a watch of a namespace, or of all, has told.
type Told = (Option<String>, Followed);

/// Applications that somebody waits for.
pub struct Watching<'a> {
    direct: &'a Direct,
    /// Which are meant; all where there are none.
    names: Vec<String>,
    known: BTreeMap<AppKey, Resource>,
    /// Those that have changed, and could not be read then.
    stale: BTreeSet<AppKey>,
    /// Nothing until they were looked at first.
    news: Option<News>,
    notices: &'a dyn Notices,
    /// The cluster does not tell of them now, which was said.
    is_failing: bool,
}

enum News {
    Watched(SelectAll<BoxStream<'static, Told>>),
    /// They may be read, and not watched.
    Read,
}

impl Direct {
    /// Those that are meant, or all where none is named, for as long as somebody waits for them, who is told when the cluster says
    /// nothing of them.
    pub fn watch<'a>(&'a self, names: &[String], notices: &'a dyn Notices) -> Watching<'a> {
        Watching {
            direct: self,
            names: names.to_vec(),
            known: BTreeMap::new(),
            stale: BTreeSet::new(),
            news: None,
            notices,
            is_failing: false,
        }
    }
}

impl Watching<'_> {
    /// As they are now.
    ///
    /// # Errors
    ///
    /// The cluster serves none, or does not let us read them.
    pub async fn look(&mut self) -> Result<Vec<Application>, ServiceError> {
        if self.news.is_none() {
            self.read_all().await?;
            self.news = Some(News::Watched(self.streams()));
        }
        Ok(self.known.values().map(|one| one.application.clone()).collect())
    }

    /// Returns when they may be different, and after a while anyway.
    ///
    /// # Errors
    ///
    /// They cannot be read any more.
    pub async fn changed(&mut self) -> Result<(), ServiceError> {
        if !self.stale.is_empty() {
            tokio::time::sleep(READ_EVERY).await;
            let stale = std::mem::take(&mut self.stale);
            return self.read(stale).await;
        }
        let deadline = Instant::now() + LOOK_AGAIN;
        loop {
            let told = match &mut self.news {
                Some(News::Watched(streams)) => match tokio::time::timeout_at(deadline, streams.next()).await
                {
                    Ok(Some(told)) => told,
                    // They never end.
                    Ok(None) | Err(_) => return Ok(()),
                },
                _ => {
                    tokio::time::sleep(READ_EVERY).await;
                    return self.read_all().await;
                }
            };
            self.is_failing &= matches!(told, (_, Followed::Failing(_)));
            let stale = match told {
                (namespace, Followed::Listed(objects)) => self.stale_in(namespace.as_deref(), &objects),
                (_, Followed::Applied(object)) if self.is_news(&object) => {
                    BTreeSet::from([AppKey::of_object(&object)])
                }
                (_, Followed::Deleted(object)) if self.is_meant(&AppKey::of_object(&object)) => {
                    BTreeSet::from([AppKey::of_object(&object)])
                }
                (_, Followed::Failing(error)) if error.kind == ErrorKind::Forbidden => {
                    tracing::info!(%error, "the applications may not be watched, and are read again and again");
                    self.news = Some(News::Read);
                    BTreeSet::new()
                }
                (_, Followed::Failing(error)) if !error.kind.is_transient() => {
                    return Err(self.direct.failed(&error));
                }
                // It is asked again.
                (_, Followed::Failing(error)) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        let error = self.direct.failed(&error);
                        self.notices.warn(&format!("it is waited, and tried again: {error}"));
                    }
                    BTreeSet::new()
                }
                _ => BTreeSet::new(),
            };
            if !stale.is_empty() {
                return self.read(stale).await;
            }
        }
    }

    fn is_meant(&self, key: &AppKey) -> bool {
        let reach = &self.direct.site.reach.namespaces;
        let is_reached = reach.is_empty() || reach.contains(&key.namespace);
        let is_named = |name: &String| key.is_meant(name) && (is_reached || name.contains('/'));
        if self.names.is_empty() { is_reached } else { self.names.iter().any(is_named) }
    }

    fn is_news(&self, object: &Object) -> bool {
        let key = AppKey::of_object(object);
        let known = self.known.get(&key).map(|one| one.object.resource_version());
        self.is_meant(&key) && known != Some(object.resource_version())
    }

    /// Which are not as they are known, where these are all there are in a namespace, or in all.
    fn stale_in(&self, namespace: Option<&str>, objects: &[Object]) -> BTreeSet<AppKey> {
        let listed: BTreeSet<AppKey> = objects.iter().map(AppKey::of_object).collect();
        let is_there = |key: &&AppKey| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = self.known.keys().filter(is_there).filter(|key| !listed.contains(*key)).cloned();
        let news = objects.iter().filter(|object| self.is_news(object)).map(AppKey::of_object);
        news.chain(gone).collect()
    }

    async fn read_all(&mut self) -> Result<(), ServiceError> {
        let mut found = Vec::new();
        if self.names.is_empty() {
            found = self.direct.all().await?;
        }
        for name in &self.names {
            found.extend(self.direct.find(name).await?);
        }
        self.known = found.into_iter().map(|one| (one.key(), one)).collect();
        Ok(())
    }

    /// What a watch tells may be older than what is there.
    async fn read(&mut self, stale: BTreeSet<AppKey>) -> Result<(), ServiceError> {
        for key in stale {
            match self.direct.get(&key).await {
                Ok(Some(now)) => drop(self.known.insert(key, now)),
                Ok(None) => drop(self.known.remove(&key)),
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "an application cannot be read now");
                    self.stale.insert(key);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One for each namespace in which they are, or one for all.
    fn streams(&self) -> SelectAll<BoxStream<'static, Told>> {
        let reach = &self.direct.site.reach.namespaces;
        let by_name = self.names.iter().filter_map(|name| name.split_once('/'));
        let mut namespaces: BTreeSet<Option<String>> =
            by_name.map(|(namespace, _)| Some(namespace.to_owned())).collect();
        if self.names.is_empty() || self.names.iter().any(|name| !name.contains('/')) {
            match reach.is_empty() {
                true => namespaces = BTreeSet::from([None]),
                false => namespaces.extend(reach.iter().cloned().map(Some)),
            }
        }
        let followed = namespaces.into_iter().map(|namespace| {
            let scope =
                Scope { gvk: kind::<Applications>(), namespace: namespace.clone(), detail: Detail::Metadata };
            follow(Arc::clone(&self.direct.site.cluster), scope, PAUSES)
                .map(move |what| (namespace.clone(), what))
                .boxed()
        });
        select_all(followed)
    }
}
