//! Whom to trust.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Which servers are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted<'a> {
    /// Whom this system trusts.
    System,
    /// Whom these authorities have signed for, and nobody else; in PEM.
    Authorities(&'a str),
    /// Everybody.
    Anyone,
}

/// What proves to a server who asks: a certificate and its key, in PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    /// The certificate, and those above it.
    pub chain: &'a str,
    /// Its key.
    pub key: &'a str,
}

/// Why no connection can be made safe. Shows nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The library refuses.
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    /// The certificates of this system are not there, or cannot be read.
    #[error(
        "the certificates that this system trusts cannot be read: {0}; SSL_CERT_FILE names a file of them"
    )]
    System(String),
    /// The authorities are something else.
    #[error("there are no certificates in PEM")]
    Authorities,
    /// The certificate of who asks is none, or the key is not its key.
    #[error("there is no certificate with its key in PEM")]
    Client,
}

/// How connections are made safe.
pub type Tls = Arc<ClientConfig>;

/// What this system trusts, read once.
#[derive(Default)]
pub struct Trust {
    system: OnceLock<Result<Tls, TrustError>>,
}

impl Trust {
    /// How connections to servers are made safe.
    pub fn config(
        &self,
        trusted: Trusted<'_>,
        client: Option<ClientCertificate<'_>>,
    ) -> Result<Tls, TrustError> {
        match (trusted, client) {
            (Trusted::System, None) => {
                self.system.get_or_init(|| build(trusted, client).map(Arc::new)).clone()
            }
            _ => build(trusted, client).map(Arc::new),
        }
    }
}

fn build(trusted: Trusted<'_>, client: Option<ClientCertificate<'_>>) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Tls(error.to_string()))?;
    let builder = match trusted {
        Trusted::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Believer(provider))),
        Trusted::Authorities(pem) => builder.with_root_certificates(roots(pem)?),
        Trusted::System => {
            builder.with_native_roots().map_err(|error| TrustError::System(error.to_string()))?
        }
    };
    let Some(client) = client else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(client.chain.as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TrustError::Client)?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(|_| TrustError::Client)?;
    builder.with_client_auth_cert(chain, key).map_err(|_| TrustError::Client)
}

fn roots(pem: &str) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| TrustError::Authorities)?;
        roots.add(certificate).map_err(|_| TrustError::Authorities)?;
    }
    if roots.is_empty() { Err(TrustError::Authorities) } else { Ok(roots) }
}

/// Believes every certificate, where somebody has said `insecure`.
#[derive(Debug)]
struct Believer(Arc<CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
