//! Whom a repository's Secrets and ConfigMaps trust.

use tidegate_web::{ClientCertificate, Tls, Trust, TrustError, Trusted};

use super::Problem;
use crate::credentials::Access;

/// How connections to a repository are made safe.
pub(super) fn config(trust: &Trust, access: &Access) -> Result<Tls, Problem> {
    let trusted = match &access.certificates {
        _ if access.insecure => Trusted::Anyone,
        Some(pem) => Trusted::Authorities(pem),
        None => Trusted::System,
    };
    let client = access.client.as_ref();
    let client = client.map(|(chain, key)| ClientCertificate { chain: &chain.0, key: &key.0 });
    trust.config(trusted, client).map_err(|error| match error {
        TrustError::Authorities => {
            Problem::new("the certificates of its host in argocd-tls-certs-cm are no certificates in PEM")
        }
        TrustError::Client => {
            let secret = access.secret.as_deref().unwrap_or_default();
            Problem::new(format!(
                "tlsClientCertData and tlsClientCertKey of Secret {secret} are no certificate and its key in PEM"
            ))
        }
        error => Problem::new(error.to_string()),
    })
}
