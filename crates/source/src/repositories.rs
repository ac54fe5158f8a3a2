//! Registry of open repositories. All users of a repository share its observations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidegate_model::argo::ApplicationSource;
use tidegate_web::Clock;

use crate::charts::ChartRepository;
use crate::origin::{OpenSource, Origin, is_chart};
use crate::remote::{self, Network};
use crate::remote_dependencies::WebFile;
use crate::repository::Repository;
use crate::signing::{Keyring, SignatureCheck};
use crate::{Address, AddressContext, AzureWorkload, Credentials, Listener, RemoteLimits, SourceError};

/// Settings for remote repositories.
#[derive(Clone, Debug)]
pub struct RemoteAccess {
    /// Folder for the mirrors, not to be shared with another process.
    pub mirrors: PathBuf,
    /// Credentials for repositories.
    pub credentials: Credentials,
    /// Limits for requests to servers.
    pub limits: RemoteLimits,
    /// Path of the SSH program.
    pub ssh: PathBuf,
    /// True if servers may have link-local addresses, which clouds use for metadata services and the like.
    pub allows_link_local: bool,
    /// Clock that determines when temporary passwords expire.
    pub clock: Clock,
    /// Azure workload identity of this process.
    pub azure: AzureWorkload,
    /// Receiver of request events.
    pub listener: Listener,
}

impl RemoteAccess {
    /// Creates settings with this folder for mirrors and this process's Azure workload identity.
    pub fn new(mirrors: PathBuf) -> Self {
        let (credentials, limits, clock, listener) = Default::default();
        let (ssh, link_local) = (PathBuf::from("ssh"), false);
        let azure = AzureWorkload::from_environment();
        Self { mirrors, credentials, limits, ssh, allows_link_local: link_local, clock, azure, listener }
    }
}

/// Returns the address of a source's repository. Relative paths are resolved against `base`.
fn source_address(source: &ApplicationSource, base: &Path) -> Result<Address, SourceError> {
    match is_chart(source) {
        true => Address::parse_chart(&source.repo_url, &source.chart),
        false => Address::parse(&source.repo_url, base),
    }
}

/// Open repositories, each opened only once and shared by everyone.
#[derive(Default)]
pub struct Repositories {
    git: Mutex<BTreeMap<Address, Arc<Repository>>>,
    charts: Mutex<BTreeMap<Address, Arc<ChartRepository>>>,
    files: Mutex<BTreeMap<Address, Arc<WebFile>>>,
    /// Access to remote repositories. If `None`, they are an error.
    network: Option<Arc<Network>>,
    /// Public keys for verifying signatures.
    keyring: RwLock<Arc<Keyring>>,
}

impl Repositories {
    /// Creates a registry that can open both local and remote repositories.
    pub fn new(reach: RemoteAccess) -> Self {
        let RemoteAccess {
            mirrors,
            credentials,
            limits,
            ssh,
            allows_link_local: link_local,
            clock,
            azure,
            listener,
        } = reach;
        // Clean up after a killed process.
        remote::ssh::delete_stale_keys(&mirrors);
        remote::delete_unfinished(&mirrors);
        let credentials = RwLock::new(Arc::new(credentials));
        let (attempts, trust, tokens) = Default::default();
        let network = Network {
            mirrors,
            credentials,
            limits,
            ssh,
            allows_link_local: link_local,
            attempts,
            trust,
            tokens,
            clock,
            azure,
            listener,
        };
        Self { network: Some(Arc::new(network)), ..Self::default() }
    }

    /// Opens the repository of a `repoURL`.
    pub fn open<'h>(
        &self,
        url: &str,
        home: impl Into<AddressContext<'h>>,
    ) -> Result<Arc<Repository>, SourceError> {
        let home = home.into();
        let address = self.address_for_project(Address::parse(url, home.base)?, home.project);
        let repository = self.open_git(&address, url, false)?;
        // An Application's own source may be on this machine, so allow loopback addresses.
        repository.set_blocks_loopback(false);
        Ok(repository)
    }

    /// Opens a repository that manifests refer to. `is_barred` blocks redirects to loopback addresses, unless
    /// the repository is also an Application's source.
    pub(crate) fn open_fetched(
        &self,
        address: &Address,
        url: &str,
        is_barred: bool,
    ) -> Result<Arc<Repository>, SourceError> {
        self.open_git(address, url, is_barred)
    }

    fn open_git(
        &self,
        address: &Address,
        url: &str,
        is_barred: bool,
    ) -> Result<Arc<Repository>, SourceError> {
        let known = || self.git.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repository) = known().get(address) {
            return Ok(Arc::clone(repository));
        }
        // Don't hold the lock: opening may block on the disk, and callers of other repositories would wait.
        let new = Arc::new(Repository::open(address, url, self.network.as_ref())?);
        new.set_blocks_loopback(is_barred);
        Ok(Arc::clone(known().entry(address.clone()).or_insert(new)))
    }

    /// Opens the repository of a source.
    pub fn origin<'h>(
        &self,
        source: &ApplicationSource,
        home: impl Into<AddressContext<'h>>,
    ) -> Result<Origin, SourceError> {
        let home = home.into();
        if !is_chart(source) {
            return self.open(&source.repo_url, home).map(Origin::Git);
        }
        self.open_charts(&self.address(source, home)?, None).map(Origin::Charts)
    }

    /// Returns the address of a source's repository.
    pub fn address<'h>(
        &self,
        source: &ApplicationSource,
        home: impl Into<AddressContext<'h>>,
    ) -> Result<Address, SourceError> {
        let home = home.into();
        Ok(self.address_for_project(source_address(source, home.base)?, home.project))
    }

    /// Returns the address as seen by a project, which differs if the project has its own Secret for the
    /// repository.
    pub(crate) fn address_for_project(&self, address: Address, project: &str) -> Address {
        match self.credentials() {
            Some(credentials) if !project.is_empty() => credentials.address_for_project(address, project),
            _ => address,
        }
    }

    /// Returns the addresses in a project's own repository Secrets, as written.
    pub fn addresses_of_project(&self, project: &str) -> Vec<String> {
        self.credentials().map(|known| known.addresses_of_project(project)).unwrap_or_default()
    }

    fn credentials(&self) -> Option<Arc<Credentials>> {
        let known = &self.network.as_ref()?.credentials;
        Some(Arc::clone(&known.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Opens a chart repository. For a repository that only manifests refer to, `is_barred` says whether
    /// redirects to loopback addresses are blocked. It is `None` for an Application's source.
    pub(crate) fn open_charts(
        &self,
        address: &Address,
        is_barred: Option<bool>,
    ) -> Result<Arc<ChartRepository>, SourceError> {
        let network = self.network.as_ref().ok_or_else(|| address.remote_access_disabled())?;
        let mut known = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let new = ChartRepository::new(address.clone(), Arc::clone(network));
            new.set_blocks_loopback(is_barred.unwrap_or_default());
            Arc::new(new)
        };
        let charts = Arc::clone(known.entry(address.clone()).or_insert_with(new));
        if is_barred.is_none() {
            charts.set_blocks_loopback(false);
        }
        Ok(charts)
    }

    /// Opens a single file on a server.
    pub(crate) fn open_file(&self, address: &Address, is_barred: bool) -> Result<Arc<WebFile>, SourceError> {
        let network = self.network.as_ref().ok_or_else(|| address.remote_access_disabled())?;
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(WebFile::new(address.clone(), Arc::clone(network), is_barred));
        Ok(Arc::clone(known.entry(address.clone()).or_insert_with(new)))
    }

    /// Returns true if servers may have link-local addresses.
    pub(crate) fn allows_link_local(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.allows_link_local)
    }

    /// Returns the address of the Helm repository that a Secret visible to the project declares under this
    /// name.
    pub(crate) fn find_chart_repository(&self, name: &str, project: &str) -> Option<String> {
        self.credentials()?.find_chart_repository(name, project)
    }

    /// Returns the open repository or file at an address.
    pub fn find_open(&self, address: &Address) -> Option<OpenSource> {
        let git = self.git.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let charts = || self.charts.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let file = || self.files.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned();
        let origin = git.map(Origin::Git).or_else(|| charts().map(Origin::Charts));
        origin.map(OpenSource::from_origin).or_else(|| file().map(OpenSource::from_file))
    }

    /// Returns all open repositories and files.
    pub fn open_sources(&self) -> Vec<OpenSource> {
        let git = self
            .git
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
        let files: Vec<OpenSource> =
            files.values().map(|file| OpenSource::from_file(Arc::clone(file))).collect();
        let origins = git.into_iter().map(Origin::Git).chain(charts.into_iter().map(Origin::Charts));
        origins.map(OpenSource::from_origin).chain(files).collect()
    }

    /// Closes unused repositories not in `used`. Also deletes the mirrors of all repositories that are neither
    /// open nor in `used`, even those left by earlier processes; they are fetched again if needed.
    pub fn keep_only(&self, used: &BTreeSet<Address>) {
        // No repository can be opened while these locks are held.
        let mut known = self.git.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        let mut charts = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
        charts.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|address, one| used.contains(address) || Arc::strong_count(one) > 1);
        if let Some(network) = &self.network {
            remote::delete_unused(&network.mirrors, known.keys().chain(used));
        }
    }

    /// Fails unless a commit has a signature that the project accepts.
    pub fn check_signed<'h>(
        &self,
        source: &ApplicationSource,
        home: impl Into<AddressContext<'h>>,
        check: SignatureCheck<'_>,
    ) -> Result<(), SourceError> {
        let keyring = Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner));
        self.origin(source, home)?.check_signed(check, &keyring)
    }

    /// Fails unless a commit in an open repository has an accepted signature.
    pub(crate) fn check_signed_in(
        &self,
        repository: &Repository,
        check: SignatureCheck<'_>,
    ) -> Result<(), SourceError> {
        let keyring = Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner));
        repository.check_signed(check, &keyring)
    }

    /// Sets the credentials and public keys. Returns true if the keys have changed.
    pub fn set_credentials(&self, credentials: Credentials) -> bool {
        let is_other = {
            let mut keyring = self.keyring.write().unwrap_or_else(PoisonError::into_inner);
            let is_other = !keyring.has_keys(&credentials.signing);
            if is_other {
                *keyring = Arc::new(Keyring::new(credentials.signing.clone()));
            }
            is_other
        };
        if let Some(network) = &self.network {
            let mut known = network.credentials.write().unwrap_or_else(PoisonError::into_inner);
            if **known != credentials {
                network.retain_tokens_of(&known.unchanged_secrets(&credentials));
                *known = Arc::new(credentials);
            }
        }
        is_other
    }

    /// Cancels all current and future requests to servers, which then fail.
    pub fn stop(&self) {
        if let Some(network) = &self.network {
            network.attempts.stop();
        }
    }
}
