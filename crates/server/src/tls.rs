//! TLS with a certificate and key from files, reloaded when they change.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;

use crate::error::ServerError;
use crate::settings::TlsFiles;

/// Minimum interval between checks of the files, triggered by new connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Permission bits that allow other users to write, or everyone to read.
const OTHERS_WRITE: u32 = 0o022;
const ALL_READ: u32 = 0o004;
const PERMISSION_BITS: u32 = 0o777;

/// Version of a file, used to detect changes.
type FileVersion = Option<(u64, u64, i64, i64)>;

/// TLS configuration.
pub(crate) struct Tls {
    files: TlsFiles,
    loaded: Mutex<LoadedConfig>,
}

struct LoadedConfig {
    config: Arc<ServerConfig>,
    versions: [FileVersion; 2],
    checked_at: Instant,
}

impl Tls {
    /// Reads the files.
    pub fn open(files: &TlsFiles) -> Result<Self, ServerError> {
        let versions = file_versions(files);
        let read = LoadedConfig { config: load_config(files)?, versions, checked_at: Instant::now() };
        Ok(Self { files: files.clone(), loaded: Mutex::new(read) })
    }

    /// Returns the configuration for a new connection. If the files have become unusable, keeps the previous
    /// configuration.
    pub fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let mut read = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(read.checked_at) >= CHECK_INTERVAL {
            read.checked_at = now;
            let from = file_versions(&self.files);
            if from != read.versions {
                match self::load_config(&self.files) {
                    // The files may not match while both are being replaced. The next check reads them again.
                    Ok(config) => (read.config, read.versions) = (config, from),
                    Err(error) => {
                        tracing::warn!(%error, "failed to reload the certificate; the previous certificate remains in use")
                    }
                }
            }
        }
        Arc::clone(&read.config)
    }
}

fn file_versions(files: &TlsFiles) -> [FileVersion; 2] {
    [&files.certificates, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
    })
}

fn load_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServerError> {
    let TlsFiles { certificates: chain_path, key: key_path } = files;
    let wrong = |path: &Path, why: String| ServerError::InvalidTls { path: path.to_owned(), why };
    let chain = read_file(chain_path)?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(chain_path, format!("{error}; the file must contain PEM certificates")))?;
    if chain.is_empty() {
        return Err(wrong(chain_path, "the file contains no PEM certificate".to_owned()));
    }
    let found = fs::metadata(key_path)
        .map_err(|source| ServerError::ReadFile { path: key_path.to_owned(), source })?;
    check_permissions(key_path, &found, "a private key must be readable only by its owner", "run chmod 600")?;
    // The parser's message may quote the key.
    let key = PrivateKeyDer::from_pem_slice(&read_file(key_path)?)
        .map_err(|_| wrong(key_path, "the file contains no PEM private key".to_owned()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, key));
    let mut config = config
        .map_err(|error| wrong(key_path, format!("{error}; the key must match the first certificate")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_file(path: &Path) -> Result<Vec<u8>, ServerError> {
    fs::read(path).map_err(|source| ServerError::ReadFile { path: path.to_owned(), source })
}

/// Rejects a file that everyone can read or that other users can write to.
pub(crate) fn check_permissions(
    path: &Path,
    found: &fs::Metadata,
    why: &'static str,
    advice: &'static str,
) -> Result<(), ServerError> {
    let mode = found.permissions().mode() & PERMISSION_BITS;
    if mode & (OTHERS_WRITE | ALL_READ) == 0 {
        return Ok(());
    }
    Err(ServerError::FilePermissions { path: path.to_owned(), mode, why, advice })
}
