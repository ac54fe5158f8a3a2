//! TLS: certificate and key from files, read again when they change.

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

/// How often it is looked whether the files have changed, while somebody connects.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The rights of others: to write, and of everybody: to read.
const OTHERS_WRITE: u32 = 0o022;
const ALL_READ: u32 = 0o004;
const RIGHTS: u32 = 0o777;

/// What tells one state of a file from another.
type Version = Option<(u64, u64, i64, i64)>;

/// How connections are secured.
pub(crate) struct Tls {
    files: TlsFiles,
    read: Mutex<Read>,
}

struct Read {
    config: Arc<ServerConfig>,
    from: [Version; 2],
    looked_at: Instant,
}

impl Tls {
    /// Reads the files.
    pub fn open(files: &TlsFiles) -> Result<Self, ServerError> {
        let from = versions(files);
        let read = Read { config: read(files)?, from, looked_at: Instant::now() };
        Ok(Self { files: files.clone(), read: Mutex::new(read) })
    }

    /// How a connection is secured that begins now. Where the files cannot be used any more, what they had is.
    pub fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(read.looked_at) >= LOOK_EVERY {
            read.looked_at = now;
            let from = versions(&self.files);
            if from != read.from {
                match self::read(&self.files) {
                    // Of a pair that is being replaced, one may be there before the other: then it is read again.
                    Ok(config) => (read.config, read.from) = (config, from),
                    Err(error) => {
                        tracing::warn!(%error, "the certificate stays the one that was there before")
                    }
                }
            }
        }
        Arc::clone(&read.config)
    }
}

fn versions(files: &TlsFiles) -> [Version; 2] {
    [&files.certificates, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
    })
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServerError> {
    let TlsFiles { certificates: chain_path, key: key_path } = files;
    let wrong = |path: &Path, why: String| ServerError::Tls { path: path.to_owned(), why };
    let chain = content(chain_path)?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(chain_path, format!("{error}; it is to hold certificates in PEM")))?;
    if chain.is_empty() {
        return Err(wrong(chain_path, "it holds no certificate in PEM".to_owned()));
    }
    let found =
        fs::metadata(key_path).map_err(|source| ServerError::File { path: key_path.to_owned(), source })?;
    closed(key_path, &found, "a private key is for its owner", "its owner can close it: chmod 600")?;
    // What the parser says of a key may repeat it.
    let key = PrivateKeyDer::from_pem_slice(&content(key_path)?)
        .map_err(|_| wrong(key_path, "it holds no private key in PEM".to_owned()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, key));
    let mut config = config.map_err(|error| {
        wrong(key_path, format!("{error}; the key and the first certificate must belong together"))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn content(path: &Path) -> Result<Vec<u8>, ServerError> {
    fs::read(path).map_err(|source| ServerError::File { path: path.to_owned(), source })
}

/// Refuses a file that everybody can read, or that others can write.
pub(crate) fn closed(
    path: &Path,
    found: &fs::Metadata,
    why: &'static str,
    advice: &'static str,
) -> Result<(), ServerError> {
    let mode = found.permissions().mode() & RIGHTS;
    if mode & (OTHERS_WRITE | ALL_READ) == 0 {
        return Ok(());
    }
    Err(ServerError::Exposed { path: path.to_owned(), mode, why, advice })
}
