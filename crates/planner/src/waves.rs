//! Waves of objects.

use tidegate_model::{Object, annotations};

/// Wave of an object according to its annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedWave<'o> {
    /// Number within the phase (default: 0).
    pub number: i64,
    /// Annotations ignored because they aren't integers, with their values.
    pub invalid_annotations: [Option<(&'static str, &'o str)>; 2],
}

/// Returns the wave of an object: `argocd.argoproj.io/sync-wave` if set, otherwise `helm.sh/hook-weight`
/// (even for resources that aren't hooks), otherwise 0.
///
/// Numbers are signed decimals without whitespace. Anything else counts as absent.
pub(crate) fn wave_of_object(object: &Object) -> ParsedWave<'_> {
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
    ParsedWave { number: wave.unwrap_or(0), invalid_annotations: passed_over }
}

/// Returns the wave given by an object's annotations. Pruning reverses the order of these waves.
pub fn annotated_wave(object: &Object) -> i64 {
    wave_of_object(object).number
}

/// Returns true if a string is an integer that doesn't fit into 64 bits.
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
    fn waves_of_annotations() {
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
            let found = wave_of_object(&object);
            assert_eq!(found.number, expected, "{argo:?} {helm:?}");
            assert_eq!(found.invalid_annotations.iter().flatten().count(), passed_over, "{argo:?} {helm:?}");
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
