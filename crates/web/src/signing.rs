//! Signed JSON Web Tokens, with keys from GitHub and Google.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::Signer;
use serde_json::{Map, Value, json};

/// Age of a new token in seconds. Tokens are backdated in case the server's clock is behind.
const BACKDATED_SECONDS: u64 = 60;
/// Lifetime of a token in seconds. GitHub accepts at most ten minutes, and Google an hour.
const VALID_SECONDS: u64 = 10 * 60;

/// Reason signing failed. The message never contains parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The text isn't a key.
    #[error("the key is not an RSA private key in PEM format")]
    InvalidKey,
    /// The library rejects the key.
    #[error("the key cannot be used to sign")]
    KeyRejected,
}

/// A private RSA key. Its `Debug` output doesn't contain the key.
pub struct RsaKey(Box<dyn Signer>);

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl RsaKey {
    /// Parses a key in PEM format, labeled `RSA PRIVATE KEY` or `PRIVATE KEY`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text isn't a key, or if the key is too short for the library.
    pub fn from_pem(pem: &str) -> Result<Self, SigningError> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| SigningError::InvalidKey)?;
        let key = any_supported_type(&der).map_err(|_| SigningError::InvalidKey)?;
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).map(Self).ok_or(SigningError::InvalidKey)
    }

    /// Returns a token with `claims`, signed with RS256 and backdated by a minute from `now`, in seconds since
    /// 1970. It is valid for ten minutes. `key_id` identifies the key among its owner's keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the library rejects the key.
    pub fn jwt(
        &self,
        key_id: Option<&str>,
        mut claims: Map<String, Value>,
        now: u64,
    ) -> Result<String, SigningError> {
        let from = now.saturating_sub(BACKDATED_SECONDS);
        claims.extend([
            ("iat".to_owned(), from.into()),
            ("exp".to_owned(), from.saturating_add(VALID_SECONDS).into()),
        ]);
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let (Some(id), Some(fields)) = (key_id, header.as_object_mut()) {
            fields.insert("kid".to_owned(), id.into());
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let said = format!("{}.{}", part(&header), part(&claims.into()));
        let signature = self.0.sign(said.as_bytes()).map_err(|_| SigningError::KeyRejected)?;
        Ok(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
