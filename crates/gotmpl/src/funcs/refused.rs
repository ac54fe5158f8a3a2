//! Functions that say something else at every call, or ask the machine. A template that calls one could never be up to
//! date, so they are known and refuse to be called.

use super::{Builtin, Given, Ty, v};

fn refuse() -> Given {
    Err("it would say something else at every look, so it is not available; give the value as a parameter"
        .to_owned())
}

macro_rules! refused {
    ($($name:literal)*) => {
        &[$(v($name, &[Ty::Any], |_, _| refuse()),)*]
    };
}

pub(super) const SPRIG: &[Builtin] = refused!(
    "randAlphaNum" "randAlpha" "randAscii" "randNumeric" "randBytes" "randInt" "shuffle" "uuidv4"
    "bcrypt" "htpasswd" "derivePassword" "encryptAES" "decryptAES"
    "genPrivateKey" "buildCustomCert" "genCA" "genCAWithKey" "genSelfSignedCert" "genSelfSignedCertWithKey"
    "genSignedCert" "genSignedCertWithKey"
    "env" "expandenv" "getHostByName"
);
