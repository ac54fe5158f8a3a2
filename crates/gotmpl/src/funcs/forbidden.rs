//! Functions that templates can't call. Most of them return something new on every call or read the
//! environment, which would keep an Application out of sync forever. The others derive secrets or decrypt
//! data, which anyone with access to the Application could then see.

use super::{Builtin, CallResult, Ty, variadic};

fn refuse() -> CallResult {
    Err("this function is not available, because its result can differ between renderings; \
         pass the value as a parameter"
        .to_owned())
}

fn refuse_secret() -> CallResult {
    Err("this function is not available, because everyone who can read the Application would see \
         the secret; keep secrets in a Secret"
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
