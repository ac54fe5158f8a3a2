//! Functions that templates can't call. Most of them return a different value on each call or read the
//! environment, so an Application that uses them would always be out of sync. The others derive secrets from
//! other secrets, which templates should not do.

use super::{Builtin, CallResult, Ty, variadic};

fn refuse() -> CallResult {
    Err("its result can differ between renderings, so it is not available; pass the value as a parameter"
        .to_owned())
}

fn refuse_secret() -> CallResult {
    Err("it derives a secret, which everyone who can read the Application would see, so \
         it is not available; keep secrets in a Secret"
        .to_owned())
}

macro_rules! refused {
    ($($name:literal)* ; $($secret:literal)*) => {
        &[$(variadic($name, &[Ty::Any], |_, _| refuse()),)* $(variadic($secret, &[Ty::Any], |_, _| refuse_secret()),)*]
    };
}

pub(super) const SPRIG: &[Builtin] = refused!(
    "randAlphaNum" "randAlpha" "randAscii" "randNumeric" "randBytes" "randInt" "shuffle" "uuidv4"
    "bcrypt" "htpasswd" "encryptAES"
    "genPrivateKey" "buildCustomCert" "genCA" "genCAWithKey" "genSelfSignedCert" "genSelfSignedCertWithKey"
    "genSignedCert" "genSignedCertWithKey"
    "env" "expandenv" "getHostByName";
    "derivePassword" "decryptAES"
);
