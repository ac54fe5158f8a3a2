//! JSON Web Tokens that this side signs, with keys as GitHub and Google give them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::Signer;
use serde_json::{Map, Value, json};

/// What is signed is from so long ago, in seconds: the clock of the server may be behind.
const BACK: u64 = 60;
/// And is good for so long, in seconds: GitHub takes ten minutes at most, and Google an hour.
const GOOD_FOR: u64 = 10 * 60;

/// Why nothing can be signed. Shows nothing of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The text is something else.
    #[error("it is no private RSA key in PEM")]
    NoKey,
    /// The library refuses.
    #[error("nothing can be signed with it")]
    Refused,
}

/// A private RSA key. Its debug form shows nothing of it.
pub struct RsaKey(Box<dyn Signer>);

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl RsaKey {
    /// Reads a key: `RSA PRIVATE KEY` or `PRIVATE KEY`.
    ///
    /// # Errors
    ///
    /// It is something else, or a key that is too short for the library.
    pub fn from_pem(pem: &str) -> Result<Self, SigningError> {
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| SigningError::NoKey)?;
        let key = any_supported_type(&der).map_err(|_| SigningError::NoKey)?;
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).map(Self).ok_or(SigningError::NoKey)
    }

    /// A token that says `claims`, signed by RS256 at a moment in seconds since 1970, and good for ten minutes. `key_id` says which
    /// of its owner's keys this is.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn jwt(
        &self,
        key_id: Option<&str>,
        mut claims: Map<String, Value>,
        now: u64,
    ) -> Result<String, SigningError> {
        let from = now.saturating_sub(BACK);
        claims.extend([
            ("iat".to_owned(), from.into()),
            ("exp".to_owned(), from.saturating_add(GOOD_FOR).into()),
        ]);
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let (Some(id), Some(fields)) = (key_id, header.as_object_mut()) {
            fields.insert("kid".to_owned(), id.into());
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let said = format!("{}.{}", part(&header), part(&claims.into()));
        let signature = self.0.sign(said.as_bytes()).map_err(|_| SigningError::Refused)?;
        Ok(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
