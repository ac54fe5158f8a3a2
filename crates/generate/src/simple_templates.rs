//! Templates of the form `{{name}}`.

use serde_json::Value;

use crate::error::Problem;

/// Replaces the tags in a string with the values of parameters. Keeps tags without a parameter of that name
/// or with a value that isn't a string. Inserted values aren't rendered again.
pub(crate) fn render(text: &str, parameters: &Value, bytes_max: usize) -> Result<String, Problem> {
    if !has_tag(text) {
        return Ok(text.to_owned());
    }
    let mut rendered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (tag, after) =
            after.split_once("}}").ok_or_else(|| Problem::Unclosed { template: text.to_owned() })?;
        rendered.push_str(before);
        if tag.trim().is_empty() {
            return Err(Problem::EmptyTag { template: text.to_owned(), tag: tag.to_owned() });
        }
        match parameters.get(tag.trim()).and_then(Value::as_str) {
            Some(value) => rendered.push_str(value),
            None => {
                rendered.push_str("{{");
                rendered.push_str(tag);
                rendered.push_str("}}");
            }
        }
        if rendered.len() > bytes_max {
            return Err(Problem::TooManyBytes);
        }
        rest = after;
    }
    rendered.push_str(rest);
    Ok(rendered)
}

/// Returns the names of the tags in a string.
pub(crate) fn tag_names(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(tag, _)| tag.trim())
}

/// Returns true if any line contains a complete tag. Only then are tags replaced, in all lines.
fn has_tag(text: &str) -> bool {
    text.lines().any(|line| line.split_once("{{").is_some_and(|(_, after)| after.contains("}}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_all(text: &str) -> Result<String, Problem> {
        let parameters = serde_json::json!({
            "name": "web", "path[0]": "apps", "values.tier": "low", "quoted": "a \"b\" \\ c", "tag": "{{name}}",
            "number": 3, "list": ["a"],
        });
        render(text, &parameters, 1000)
    }

    #[test]
    fn tags_are_replaced_by_texts() {
        for (text, expected) in [
            ("{{name}}-x", "web-x"),
            ("{{ name }}", "web"),
            ("{{path[0]}}/{{values.tier}}", "apps/low"),
            ("{{quoted}}", "a \"b\" \\ c"),
            ("{{tag}}", "{{name}}"),
            ("{{ missing }}-{{Name}}", "{{ missing }}-{{Name}}"),
            ("{{number}}{{list}}", "{{number}}{{list}}"),
            ("plain {{", "plain {{"),
            ("}} {{", "}} {{"),
            ("{{\nname\n}}", "{{\nname\n}}"),
            ("{{name}}\n{{\nname\n}}", "web\nweb"),
            ("", ""),
        ] {
            assert_eq!(render_all(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, tag) in [("{{}}", ""), ("a-{{ }}", " ")] {
            let empty = Problem::EmptyTag { template: text.to_owned(), tag: tag.to_owned() };
            assert_eq!(render_all(text), Err(empty), "{text}");
        }
        let unclosed = render_all("{{name}} {{name");
        assert_eq!(unclosed, Err(Problem::Unclosed { template: "{{name}} {{name".to_owned() }));
    }

    #[test]
    fn rendered_text_has_a_limit() {
        let parameters = serde_json::json!({ "a": "x".repeat(100) });
        assert_eq!(render(&"{{a}}".repeat(100), &parameters, 1000), Err(Problem::TooManyBytes));
    }
}
