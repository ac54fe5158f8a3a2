//! Whom to trust.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::Problem;
use crate::credentials::Access;

/// What this system trusts, read once.
#[derive(Default)]
pub(crate) struct Trust {
    system: OnceLock<Result<Arc<ClientConfig>, Problem>>,
}

impl Trust {
    /// How connections to a repository are made safe.
    pub fn config(&self, access: &Access) -> Result<Arc<ClientConfig>, Problem> {
        if !access.insecure && access.certificates.is_none() && access.client.is_none() {
            return self.system.get_or_init(|| build(access).map(Arc::new)).clone();
        }
        build(access).map(Arc::new)
    }
}

fn build(access: &Access) -> Result<ClientConfig, Problem> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::new(format!("TLS cannot be used: {error}")))?;
    let builder = if access.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
    } else if let Some(pem) = &access.certificates {
        builder.with_root_certificates(roots(pem)?)
    } else {
        builder.with_native_roots().map_err(|error| {
            Problem::new(format!("the certificates that this system trusts cannot be read: {error}"))
                .hint("SSL_CERT_FILE names a file of them")
        })?
    };
    let Some((certificate, key)) = &access.client else { return Ok(builder.with_no_client_auth()) };
    // What is wrong with a key must not show any of it.
    let bad = || {
        let secret = access.secret.as_deref().unwrap_or_default();
        Problem::new(format!(
            "tlsClientCertData and tlsClientCertKey of Secret {secret} are no certificate and its key in PEM"
        ))
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.0.as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(bad)?;
    let key = PrivateKeyDer::from_pem_slice(key.0.as_bytes()).map_err(|_| bad())?;
    builder.with_client_auth_cert(chain, key).map_err(|_| bad())
}

fn roots(pem: &str) -> Result<RootCertStore, Problem> {
    let bad =
        || Problem::new("the certificates of its host in argocd-tls-certs-cm are no certificates in PEM");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(|_| bad())?).map_err(|_| bad())?;
    }
    if roots.is_empty() { Err(bad()) } else { Ok(roots) }
}

/// Believes every certificate, where a Secret says `insecure`.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
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
