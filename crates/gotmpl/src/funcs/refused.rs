//! Functions that are known and refuse to be called. Most say something else at every call, or ask the machine: a template
//! that calls one could never be up to date. The others make a secret from another one, and neither belongs into a template.

use super::{Builtin, Given, Ty, v};

fn refuse() -> Given {
    Err("it would say something else at every look, so it is not available; give the value as a parameter"
        .to_owned())
}

fn refuse_secret() -> Given {
    Err("it makes a secret from another one, and what a template says can be read by everybody who sees the Application, so \
         it is not available; keep secrets in a Secret"
        .to_owned())
}

macro_rules! refused {
    ($($name:literal)* ; $($secret:literal)*) => {
        &[$(v($name, &[Ty::Any], |_, _| refuse()),)* $(v($secret, &[Ty::Any], |_, _| refuse_secret()),)*]
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
