//! TLS settings from Secrets and ConfigMaps.

use tidegate_web::{ClientCertificate, SystemTrust, Tls, TrustError, TrustedServers};

use super::Problem;
use crate::credentials::AccessSettings;

/// Returns the TLS settings for access to a repository.
pub(super) fn tls_config(trust: &SystemTrust, access: &AccessSettings) -> Result<Tls, Problem> {
    let trusted = match &access.certificates {
        _ if access.is_insecure => TrustedServers::Anyone,
        Some(pem) => TrustedServers::Authorities(pem),
        None => TrustedServers::System,
    };
    let client = access.client.as_ref();
    let client = client.map(|(chain, key)| ClientCertificate { chain: &chain.0, key: &key.0 });
    trust.tls_config(trusted, client).map_err(|error| match error {
        TrustError::Authorities => {
            Problem::new("the entry for this host in argocd-tls-certs-cm contains no PEM certificates")
        }
        TrustError::Client => {
            let secret = access.secret.as_deref().unwrap_or_default();
            Problem::new(format!(
                "tlsClientCertData and tlsClientCertKey in Secret {secret} are not a PEM certificate and \
                 its matching key"
            ))
        }
        error => Problem::new(error.to_string()),
    })
}
