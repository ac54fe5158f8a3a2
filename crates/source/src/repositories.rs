//! The repositories in use, each looked at once for all who use it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_web::Clock;

use crate::charts::ChartRepository;
use crate::fetching::WebFile;
use crate::origin::{self, Origin};
use crate::remote::{self, Network};
use crate::repository::Repository;
use crate::signing::{Keyring, Wanted};
use crate::{Address, AzureWorkload, Credentials, Home, Listener, RemoteLimits, SourceError};

/// How repositories over the network are reached.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The folder of their mirrors. It belongs to this process alone.
    pub mirrors: PathBuf,
    /// What they are asked with.
    pub credentials: Credentials,
    /// How much patience there is.
    pub limits: RemoteLimits,
    /// The program that is asked for SSH.
    pub ssh: PathBuf,
    /// Whether servers may have link-local addresses, where clouds keep services for their machines.
    pub link_local: bool,
    /// By which passwords end that are good for a while.
    pub clock: Clock,
    /// The identity of Azure that this process has.
    pub azure: AzureWorkload,
    /// Who is told what they were asked.
    pub listener: Listener,
}

impl Reach {
    /// With mirrors in a folder, the identity of Azure that this process has, and nothing else said.
    pub fn new(mirrors: PathBuf) -> Self {
        let (credentials, limits, clock, listener) = Default::default();
        let (ssh, link_local) = (PathBuf::from("ssh"), false);
        let azure = AzureWorkload::of_process();
        Self { mirrors, credentials, limits, ssh, link_local, clock, azure, listener }
    }
}

/// Something that is looked at again and again.
pub struct Known(Kind);

enum Kind {
    /// A repository, or a place of charts.
    Origin(Origin),
    /// One file of a server.
    File(Arc<WebFile>),
}

impl Known {
    fn origin(origin: Origin) -> Self {
        Self(Kind::Origin(origin))
    }

    fn file(file: Arc<WebFile>) -> Self {
        Self(Kind::File(file))
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        match &self.0 {
            Kind::Origin(origin) => origin.address(),
            Kind::File(file) => file.address(),
        }
    }

    /// Whether a revision is what it is, whatever a look would show.
    pub fn is_fixed(&self, revision: &str) -> bool {
        matches!(&self.0, Kind::Origin(origin) if origin.is_fixed(revision))
    }

    /// Looks again. Says whether anything has changed for those who use it, be it that nothing can be seen.
    pub fn look_again(&self) -> bool {
        match &self.0 {
            Kind::Origin(origin) => origin.look_again(),
            Kind::File(file) => file.look_again(),
        }
    }
}

/// The repositories in use, each known once however many use it.
#[derive(Default)]
pub struct Repositories {
    known: Mutex<BTreeMap<Address, Arc<Repository>>>,
    charts: Mutex<BTreeMap<Address, Arc<ChartRepository>>>,
    files: Mutex<BTreeMap<Address, Arc<WebFile>>>,
    /// Nothing where none over the network are reached.
    network: Option<Arc<Network>>,
    /// What signatures are checked with.
    keyring: RwLock<Arc<Keyring>>,
}

impl Repositories {
    /// Those on this machine, and those that are reached over the network.
    pub fn new(reach: Reach) -> Self {
        let Reach { mirrors, credentials, limits, ssh, link_local, clock, azure, listener } = reach;
        // A process that was killed may have left keys, and what it was fetching.
        remote::ssh::sweep(&mirrors);
        remote::sweep_begun(&mirrors);
        let credentials = RwLock::new(Arc::new(credentials));
        let (attempts, trust, tokens) = Default::default();
        let network = Network {
            mirrors,
            credentials,
            limits,
            ssh,
            link_local,
            attempts,
            trust,
            tokens,
            clock,
            azure,
            listener,
        };
        Self { network: Some(Arc::new(network)), ..Self::default() }
    }

    /// The repository of a `repoURL`.
    pub fn open<'h>(&self, url: &str, home: impl Into<Home<'h>>) -> Result<Arc<Repository>, SourceError> {
        let home = home.into();
        let address = self.as_of(Address::parse(url, home.base)?, home.project);
        let repository = self.opened(&address, url, false)?;
        // Whoever names it as a source may have it on this machine.
        repository.bar_loopback(false);
        Ok(repository)
    }

    /// A repository that manifests name; `is_barred`: on the way there addresses of this machine are not asked, unless somebody
    /// has it as a source.
    pub(crate) fn open_fetched(
        &self,
        address: &Address,
        url: &str,
        is_barred: bool,
    ) -> Result<Arc<Repository>, SourceError> {
        self.opened(address, url, is_barred)
    }

    fn opened(&self, address: &Address, url: &str, is_barred: bool) -> Result<Arc<Repository>, SourceError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repository) = known().get(address) {
            return Ok(Arc::clone(repository));
        }
        // Nobody who wants another one waits for this one's disk.
        let new = Arc::new(Repository::open(address, url, self.network.as_ref())?);
        new.bar_loopback(is_barred);
        Ok(Arc::clone(known().entry(address.clone()).or_insert(new)))
    }

    /// Where a source is from.
    pub fn origin<'h>(
        &self,
        source: &ApplicationSource,
        home: impl Into<Home<'h>>,
    ) -> Result<Origin, SourceError> {
        let home = home.into();
        if !origin::is_chart(source) {
            return self.open(&source.repo_url, home).map(Origin::Git);
        }
        self.open_charts(&self.address(source, home)?, None).map(Origin::Charts)
    }

    /// Which repository a source is from.
    pub fn address<'h>(
        &self,
        source: &ApplicationSource,
        home: impl Into<Home<'h>>,
    ) -> Result<Address, SourceError> {
        let home = home.into();
        Ok(self.as_of(origin::address(source, home.base)?, home.project))
    }

    /// A repository as a project has it.
    pub(crate) fn as_of(&self, address: Address, project: &str) -> Address {
        match self.credentials() {
            Some(credentials) if !project.is_empty() => credentials.as_of(address, project),
            _ => address,
        }
    }

    /// The addresses of the repositories that a project has Secrets of its own for, as they are written there.
    pub fn of_project(&self, project: &str) -> Vec<String> {
        self.credentials().map(|known| known.of_project(project)).unwrap_or_default()
    }

    fn credentials(&self) -> Option<Arc<Credentials>> {
        let known = &self.network.as_ref()?.credentials;
        Some(Arc::clone(&known.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The charts of an address; `is_barred`: manifests alone name it, and on the way there addresses of this machine are asked or
    /// not.
    pub(crate) fn open_charts(
        &self,
        address: &Address,
        is_barred: Option<bool>,
    ) -> Result<Arc<ChartRepository>, SourceError> {
        let network = self.network.as_ref().ok_or_else(|| address.unreached())?;
        let mut known = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let new = ChartRepository::new(address.clone(), Arc::clone(network));
            new.bar_loopback(is_barred.unwrap_or_default());
            Arc::new(new)
        };
        let charts = Arc::clone(known.entry(address.clone()).or_insert_with(new));
        if is_barred.is_none() {
            charts.bar_loopback(false);
        }
        Ok(charts)
    }

    /// A file of a server.
    pub(crate) fn open_file(&self, address: &Address, is_barred: bool) -> Result<Arc<WebFile>, SourceError> {
        let network = self.network.as_ref().ok_or_else(|| address.unreached())?;
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(WebFile::new(address.clone(), Arc::clone(network), is_barred));
        Ok(Arc::clone(known.entry(address.clone()).or_insert_with(new)))
    }

    /// Whether servers may have link-local addresses.
    pub(crate) fn asks_link_local(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.link_local)
    }

    /// The address of the Helm repository that a repository Secret gives a name to.
    pub(crate) fn named_charts(&self, name: &str, project: &str) -> Option<String> {
        self.credentials()?.named_charts(name, project)
    }

    /// What is known under an address.
    pub fn find(&self, address: &Address) -> Option<Known> {
        let git = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let charts = || self.charts.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let file = || self.files.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let origin = git.map(Origin::Git).or_else(|| charts().map(Origin::Charts));
        origin.map(Known::origin).or_else(|| file().map(Known::file))
    }

    /// All that are known.
    pub fn all(&self) -> Vec<Known> {
        let git = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(Arc::clone)
            .collect::<Vec<_>>();
        let charts = self
            .charts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(Arc::clone)
            .collect::<Vec<_>>();
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<Known> = files.values().map(|file| Known::file(Arc::clone(file))).collect();
        let origins = git.into_iter().map(Origin::Git).chain(charts.into_iter().map(Origin::Charts));
        origins.map(Known::origin).chain(files).collect()
    }

    /// Forgets the repositories that are not among these and that nobody works with now, and removes the mirrors of all others,
    /// also those of earlier processes. What is wanted again is fetched again.
    pub fn keep_only(&self, used: &BTreeSet<Address>) {
        // Nobody opens one meanwhile.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        let mut charts = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
        charts.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        if let Some(network) = &self.network {
            remote::sweep(&network.mirrors, known.keys().chain(used));
        }
    }

    /// Refuses a commit that is not signed as a project wants it. `names` are the revisions by which it was named: where one of
    /// them is an annotated tag of it, that is what has to be signed.
    pub fn check_signed<'h>(
        &self,
        (source, home): (&ApplicationSource, impl Into<Home<'h>>),
        commit: &str,
        names: &[&str],
        (wanted, now): (&Wanted, Timestamp),
    ) -> Result<(), SourceError> {
        let keyring = Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner));
        self.origin(source, home)?.check_signed((commit, names), &keyring, (wanted, now))
    }

    /// The same of a repository that is open.
    pub(crate) fn check_signed_in(
        &self,
        repository: &Repository,
        revision: (&str, &[&str]),
        wanted: (&Wanted, Timestamp),
    ) -> Result<(), SourceError> {
        let keyring = Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner));
        repository.check_signed(revision, &keyring, wanted)
    }

    /// Asks with these credentials from now on, and checks signatures with the keys among them. Says whether these are others
    /// than before.
    pub fn set_credentials(&self, credentials: Credentials) -> bool {
        let is_other = {
            let mut keyring = self.keyring.write().unwrap_or_else(PoisonError::into_inner);
            let is_other = !keyring.is_of(&credentials.signing);
            if is_other {
                *keyring = Arc::new(Keyring::new(credentials.signing.clone()));
            }
            is_other
        };
        if let Some(network) = &self.network {
            let mut known = network.credentials.write().unwrap_or_else(PoisonError::into_inner);
            if **known != credentials {
                network.keep_tokens_of(&known.unchanged(&credentials));
                *known = Arc::new(credentials);
            }
        }
        is_other
    }

    /// Ends all that servers are asked for, now and from now on: their answers come as errors.
    pub fn stop(&self) {
        if let Some(network) = &self.network {
            network.attempts.stop();
        }
    }
}
