//! Which wave is an object in?

use tidegate_model::{Object, annotations};

/// What an object says about its wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wave<'o> {
    /// Its number in the phase; 0 where nothing says so.
    pub wave: i64,
    /// An annotation, with its value, that does not hold a whole number and was passed over.
    pub passed_over: [Option<(&'static str, &'o str)>; 2],
}

/// The wave of an object: `sync-wave`, else `helm.sh/hook-weight` (for resources that are no hooks as well), else 0.
///
/// Numbers are signed, in base 10, without white space. What is not such a number counts as absent.
pub(crate) fn wave(object: &Object) -> Wave<'_> {
    let mut passed_over = [None, None];
    let mut wave = None;
    for (slot, annotation) in
        passed_over.iter_mut().zip([annotations::SYNC_WAVE, annotations::HELM_HOOK_WEIGHT])
    {
        let Some(value) = object.annotation(annotation).filter(|_| wave.is_none()) else { continue };
        match value.parse() {
            Ok(number) => wave = Some(number),
            Err(_) => *slot = Some((annotation, value)),
        }
    }
    Wave { wave: wave.unwrap_or(0), passed_over }
}

/// The wave that an object asks for; what is pruned goes in the reverse order of these.
pub fn own_wave(object: &Object) -> i64 {
    wave(object).wave
}

/// Whether a text is a whole number that does not fit into 64 bits.
pub(crate) fn is_overflow(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<i64>().is_err()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: serde_json::Value) -> Object {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": annotations}});
        Object::try_from(object).unwrap()
    }

    #[test]
    fn waves_as_users_write_them() {
        let table: [(Option<&str>, Option<&str>, i64, usize); 16] = [
            (None, None, 0, 0),
            (Some("1"), None, 1, 0),
            (Some("-5"), None, -5, 0),
            (Some("+5"), None, 5, 0),
            (Some(" 5"), None, 0, 1),
            (Some("5 "), None, 0, 1),
            (Some("1.5"), None, 0, 1),
            (Some(""), None, 0, 1),
            (Some("0x10"), None, 0, 1),
            (Some("9223372036854775807"), None, i64::MAX, 0),
            (Some("9223372036854775808"), None, 0, 1),
            (None, Some("3"), 3, 0),
            (Some("2"), Some("3"), 2, 0),
            (Some("2"), Some("x"), 2, 0),
            (Some("x"), Some("3"), 3, 1),
            (Some("x"), Some("y"), 0, 2),
        ];
        for (argo, helm, expected, passed_over) in table {
            let mut annotations = json!({});
            if let Some(argo) = argo {
                annotations["argocd.argoproj.io/sync-wave"] = argo.into();
            }
            if let Some(helm) = helm {
                annotations["helm.sh/hook-weight"] = helm.into();
            }
            let object = object(annotations);
            let found = wave(&object);
            assert_eq!(found.wave, expected, "{argo:?} {helm:?}");
            assert_eq!(found.passed_over.iter().flatten().count(), passed_over, "{argo:?} {helm:?}");
        }
    }

    #[test]
    fn only_whole_numbers_overflow() {
        for (value, overflow) in [
            ("9223372036854775807", false),
            ("9223372036854775808", true),
            ("-99999999999999999999", true),
            ("1e99", false),
            ("+", false),
        ] {
            assert_eq!(is_overflow(value), overflow, "{value}");
        }
    }
}
