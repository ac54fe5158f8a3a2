//! Strings with `${name}` variables.

/// Replaces variables. Errors name any unknown variable.
pub(super) fn render(text: &str, values: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, next) = after.split_once('}').ok_or("${ without }")?;
        let value = values(name).ok_or_else(|| {
            format!("unknown variable ${{{name}}}; use operation, application, revision, phase or wave")
        })?;
        filled.push_str(before);
        filled.push_str(&value);
        rest = next;
    }
    filled.push_str(rest);
    Ok(filled)
}
