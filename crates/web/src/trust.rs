//! TLS configuration: trusted servers and client certificates.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};

/// Set of trusted servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedServers<'a> {
    /// Servers with a certificate from a system authority.
    System,
    /// Servers with a certificate from one of these authorities, in PEM.
    Authorities(&'a str),
    /// All servers.
    Anyone,
}

/// A client certificate and its key, both in PEM.
#[derive(Clone, Copy)]
pub struct ClientCertificate<'a> {
    /// The certificate and its chain.
    pub chain: &'a str,
    /// Key of the certificate.
    pub key: &'a str,
}

/// Reason TLS can't be configured. The message never contains parts of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The library rejects the configuration.
    #[error("failed to configure TLS: {0}")]
    Tls(String),
    /// The system's certificates don't exist or can't be read.
    #[error(
        "failed to read the system's trusted certificates: {0}; set SSL_CERT_FILE to a file containing trusted certificates"
    )]
    System(String),
    /// The authorities are invalid.
    #[error("no certificates in PEM format")]
    Authorities,
    /// The client certificate is invalid, or the key doesn't match it.
    #[error("no certificate with a matching key in PEM format")]
    Client,
}

/// TLS configuration.
pub type Tls = Arc<ClientConfig>;

/// The system's trusted certificates, read only once.
#[derive(Default)]
pub struct SystemTrust {
    system: OnceLock<Result<Tls, TrustError>>,
}

impl SystemTrust {
    /// Returns the TLS configuration for connections to servers.
    pub fn tls_config(
        &self,
        trusted: TrustedServers<'_>,
        client: Option<ClientCertificate<'_>>,
    ) -> Result<Tls, TrustError> {
        match (trusted, client) {
            (TrustedServers::System, None) => {
                self.system.get_or_init(|| build_config(trusted, client).map(Arc::new)).clone()
            }
            _ => build_config(trusted, client).map(Arc::new),
        }
    }
}

fn build_config(
    trusted: TrustedServers<'_>,
    client: Option<ClientCertificate<'_>>,
) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Tls(error.to_string()))?;
    let builder = match trusted {
        TrustedServers::Anyone => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAllVerifier(provider)))
        }
        TrustedServers::Authorities(pem) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CustomAuthorities::parse_pem(pem, provider)?)),
        TrustedServers::System => {
            builder.with_native_roots().map_err(|error| TrustError::System(error.to_string()))?
        }
    };
    let Some(client) = client else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(client.chain.as_bytes()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TrustError::Client)?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(|_| TrustError::Client)?;
    builder.with_client_auth_cert(chain, key).map_err(|_| TrustError::Client)
}

/// Verifier that accepts servers with a certificate in the list or signed by one of the authorities.
#[derive(Debug)]
struct CustomAuthorities {
    by_signature: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl CustomAuthorities {
    fn parse_pem(pem: &str, provider: Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let listed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let listed = listed.map_err(|_| TrustError::Authorities)?;
        let mut roots = RootCertStore::empty();
        for certificate in &listed {
            roots.add(certificate.clone()).map_err(|_| TrustError::Authorities)?;
        }
        if roots.is_empty() {
            return Err(TrustError::Authorities);
        }
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { by_signature: signed.map_err(|error| TrustError::Tls(error.to_string()))?, listed })
    }
}

impl ServerCertVerifier for CustomAuthorities {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.by_signature.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // `openssl req -x509` marks a self-signed certificate as an authority. The library rejects such a
            // server after checking the dates and before checking the name.
            Err(error) if is_marked_as_authority(&error) && self.listed.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_signature.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_signature.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_signature.supported_verify_schemes()
    }
}

fn is_marked_as_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
        return false;
    };
    matches!(cause.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Verifier that accepts every certificate, for `insecure` connections.
#[derive(Debug)]
struct AcceptAllVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAllVerifier {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn certificate_params(name: &str, is_ca: bool, until: i32) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = if is_ca { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 1, 1));
        params
    }

    fn verified(pem: &str, certificate: &CertificateDer<'_>, name: &'static str) -> Result<(), String> {
        let authorities = CustomAuthorities::parse_pem(pem, Arc::new(ring::default_provider())).unwrap();
        // 2026-01-01.
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600));
        let name = ServerName::try_from(name).unwrap();
        let found = authorities.verify_server_cert(certificate, &[], &name, &[], now);
        found.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_listed_certificate_is_trusted_even_if_marked_as_an_authority() {
        for is_ca in [true, false] {
            let key = KeyPair::generate().unwrap();
            let own = certificate_params("git.example", is_ca, 2030).self_signed(&key).unwrap();
            assert_eq!(verified(&own.pem(), own.der(), "git.example"), Ok(()), "{is_ca}");
            let other = verified(&own.pem(), own.der(), "evil.example").unwrap_err();
            assert!(other.contains("not valid for name"), "{other}");
            // This certificate has the same subject with a different key.
            let stranger = certificate_params("git.example", is_ca, 2030)
                .self_signed(&KeyPair::generate().unwrap())
                .unwrap();
            assert!(verified(&own.pem(), stranger.der(), "git.example").is_err(), "{is_ca}");
            let old = certificate_params("git.example", is_ca, 2025).self_signed(&key).unwrap();
            let expired = verified(&old.pem(), old.der(), "git.example").unwrap_err();
            assert!(expired.contains("expired"), "{expired}");
        }
    }

    #[test]
    fn an_unlisted_authority_is_not_trusted_as_a_server() {
        let root = CertifiedIssuer::self_signed(
            certificate_params("root.example", true, 2030),
            KeyPair::generate().unwrap(),
        )
        .unwrap();
        let server = certificate_params("git.example", false, 2030)
            .signed_by(&KeyPair::generate().unwrap(), &root)
            .unwrap();
        assert_eq!(verified(&root.pem(), server.der(), "git.example"), Ok(()));
        let below = certificate_params("git.example", true, 2030)
            .signed_by(&KeyPair::generate().unwrap(), &root)
            .unwrap();
        let refused = verified(&root.pem(), below.der(), "git.example").unwrap_err();
        assert!(refused.contains("CaUsedAsEndEntity"), "{refused}");
    }
}
