//! Whom to trust.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::problem::Problem;

/// Whom a generator trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trusted {
    /// Whom this system trusts.
    #[default]
    System,
    /// These authorities alone, in PEM; and where they are written down.
    These { pem: String, origin: String },
    /// Everybody.
    Anyone,
}

/// What this system trusts, read once.
#[derive(Default)]
pub(super) struct Trust {
    system: OnceLock<Result<Arc<ClientConfig>, Problem>>,
}

impl Trust {
    pub fn config(&self, trusted: &Trusted) -> Result<Arc<ClientConfig>, Problem> {
        match trusted {
            Trusted::System => self.system.get_or_init(|| build(trusted).map(Arc::new)).clone(),
            other => build(other).map(Arc::new),
        }
    }
}

fn build(trusted: &Trusted) -> Result<ClientConfig, Problem> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::new(format!("TLS cannot be used: {error}")))?;
    let builder = match trusted {
        Trusted::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Believer(provider))),
        Trusted::These { pem, origin } => builder.with_root_certificates(roots(pem, origin)?),
        Trusted::System => builder.with_native_roots().map_err(|error| {
            Problem::new(format!(
                "the certificates that this system trusts cannot be read: {error}; SSL_CERT_FILE names a file of them"
            ))
        })?,
    };
    Ok(builder.with_no_client_auth())
}

fn roots(pem: &str, origin: &str) -> Result<RootCertStore, Problem> {
    let bad = || Problem::new(format!("{origin} holds no certificates in PEM"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(|_| bad())?).map_err(|_| bad())?;
    }
    if roots.is_empty() { Err(bad()) } else { Ok(roots) }
}

/// Believes every certificate, where a generator says `insecure`.
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
