//! Signing keys of the provider. The test creates them with other libraries than the service's.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ring::{hmac, rsa::PublicKeyComponents};
use rsa::RsaPrivateKey;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::rand_core::OsRng;
use serde_json::{Value, json};

/// Signature of a token, correct or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "not all tests simulate failures")]
pub enum Signs {
    Rsa,
    Ec,
    /// A key on the same curve that is not in the key set.
    OtherEc,
    Ed,
    /// The right key, but the content is changed after signing.
    Changed,
    /// No signature: `alg` is `none`.
    None,
    /// Signed with the public key as if it were a shared secret.
    WithPublicKey,
    /// The algorithm is unknown.
    Unknown,
    /// The header marks an unknown extension as critical.
    Critical,
    /// The header has this type.
    Typed(&'static str),
    /// The header announces a nested token.
    Nested,
    /// Not a token.
    Garbage,
}

struct Keys {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    other: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let random = SystemRandom::new();
        let curve = || {
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
        };
        let rsa = RsaPrivateKey::new(&mut OsRng, 2048).unwrap().to_pkcs1_der().unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Keys {
            rsa: RsaKeyPair::from_der(rsa.as_bytes()).unwrap(),
            ec: curve(),
            other: curve(),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
        }
    })
}

fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns an unguessable word.
pub fn random() -> String {
    let mut bytes = [0; 24];
    SystemRandom::new().fill(&mut bytes).unwrap();
    base64(&bytes)
}

/// Returns a public key in the key set, by its ID. The set includes keys that the service can't use.
pub fn public(kid: &str) -> Value {
    let on_curve = |key: &EcdsaKeyPair| {
        let point = key.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256", "x": base64(&point[1..33]), "y": base64(&point[33..])})
    };
    match kid {
        "rsa" | "rsa-nameless" => {
            let PublicKeyComponents::<Vec<u8>> { n, e } = keys().rsa.public_key().into();
            let mut key = json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": base64(&n), "e": base64(&e)});
            if kid == "rsa-nameless" {
                key.as_object_mut().unwrap().remove("kid");
            }
            key
        }
        "rsa-for-encryption" => {
            let PublicKeyComponents::<Vec<u8>> { n, e } = keys().rsa.public_key().into();
            json!({"kty": "RSA", "kid": "rsa", "use": "enc", "n": base64(&n), "e": base64(&e)})
        }
        "short" => json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": base64(&[0xff; 128]), "e": "AQAB"}),
        "secret" => json!({"kty": "oct", "kid": "rsa", "k": base64(keys().rsa.public_key().as_ref())}),
        "ec" => on_curve(&keys().ec),
        "other" => on_curve(&keys().other),
        "ec-again" => {
            let mut key = on_curve(&keys().other);
            key["kid"] = json!("ec");
            key
        }
        "ed" | "ed-short" | "ed-on-another-curve" => {
            let public = keys().ed.public_key().as_ref();
            let (x, curve) = match kid {
                "ed-short" => (&public[..16], "Ed25519"),
                "ed-on-another-curve" => (public, "P-256"),
                _ => (public, "Ed25519"),
            };
            json!({"kty": "OKP", "crv": curve, "kid": "ed", "use": "sig", "x": base64(x)})
        }
        "newer" => json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "newer", "pub": "AAAA"}),
        other => panic!("{other}"),
    }
}

impl Signs {
    /// Returns a token with these claims.
    pub fn token(self, kid: Option<&str>, claims: &Value) -> String {
        let algorithm = match self {
            Self::Rsa | Self::Changed | Self::Critical | Self::Typed(_) | Self::Nested => "RS256",
            Self::Ec | Self::OtherEc => "ES256",
            Self::Ed => "EdDSA",
            Self::None => "none",
            Self::WithPublicKey => "HS256",
            Self::Unknown => "XS256",
            Self::Garbage => return "not.a-token".to_owned(),
        };
        let mut header = json!({"alg": algorithm, "typ": "JWT"});
        if let Some(kid) = kid {
            header["kid"] = json!(kid);
        }
        match self {
            Self::Critical => header["crit"] = json!(["exp"]),
            Self::Typed(name) => header["typ"] = json!(name),
            Self::Nested => header["cty"] = json!("JWT"),
            _ => {}
        }
        let mut message =
            format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let (random, keys) = (SystemRandom::new(), keys());
        let signature = match self {
            Self::Ec => keys.ec.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::OtherEc => keys.other.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Ed => keys.ed.sign(message.as_bytes()).as_ref().to_vec(),
            Self::None => Vec::new(),
            Self::WithPublicKey => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, keys.rsa.public_key().as_ref());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            _ => {
                let mut signature = vec![0; keys.rsa.public().modulus_len()];
                keys.rsa.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        if self == Self::Changed {
            let mut other = claims.clone();
            other["groups"] = json!(["platform", "and-more"]);
            message =
                format!("{}.{}", message.split_once('.').unwrap().0, base64(other.to_string().as_bytes()));
        }
        format!("{message}.{}", base64(&signature))
    }
}
