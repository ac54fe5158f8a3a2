//! Rendering of strings, which are either `{{name}}` templates or Go templates.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;
use tidegate_gotmpl::{Engine, MissingKey, Template};
use tidegate_model::argo::ApplicationSetSpec;

use crate::budget::Budget;
use crate::error::Problem;
use crate::limits::TEXT_LIMITS;
use crate::{name_rules, simple_templates, yaml};

/// Maximum number of cached templates. A few dozen are typical for an ApplicationSet.
const CACHED_TEMPLATES_MAX: usize = 1_000;

/// Maximum number of characters of a template to show in an error message.
const SHOWN_MAX: usize = 500;

/// Returns the engine for Go templates, or `None` if the ApplicationSet doesn't use them.
pub(crate) fn go_engine(spec: &ApplicationSetSpec, now: Option<i64>) -> Result<Option<Engine>, Problem> {
    if !spec.go_template {
        return Ok(None);
    }
    let options = spec.go_template_options.iter();
    let missing_key = options
        .map(|option| MissingKey::from_option(option))
        .try_fold(MissingKey::Default, |_, next| next)?;
    let engine = Engine::with_sprig()
        .without(&["env", "expandenv", "getHostByName"])
        .missing_key(missing_key)
        .limits(TEXT_LIMITS)
        .function("normalize", |arguments| match arguments {
            [Value::String(text)] => Ok(Value::String(name_rules::normalize(text))),
            _ => Err("normalize takes one string".to_owned()),
        })
        .function("slugify", slugify)
        .function("toYaml", |arguments| match arguments {
            [value] => yaml::write(value).map(Value::String),
            _ => Err("toYaml takes one value".to_owned()),
        })
        .function("fromYaml", |arguments| from_yaml(arguments, "fromYaml", "a mapping", Value::is_object))
        .function("fromYamlArray", |arguments| {
            from_yaml(arguments, "fromYamlArray", "a sequence", Value::is_array)
        });
    Ok(Some(match now {
        Some(now) => engine.now(now),
        None => engine,
    }))
}

fn slugify(arguments: &[Value]) -> Result<Value, String> {
    let slug = match arguments {
        [Value::String(text)] => name_rules::slugify(name_rules::SLUG_BYTES, true, text),
        [bytes_max, Value::String(text)] => name_rules::slugify(parse_length(bytes_max)?, true, text),
        [bytes_max, Value::Bool(smart), Value::String(text)] => {
            name_rules::slugify(parse_length(bytes_max)?, *smart, text)
        }
        _ => return Err(SLUGIFY.to_owned()),
    };
    Ok(Value::String(slug))
}

const SLUGIFY: &str = "slugify takes an optional maximum length, an optional boolean for truncation at word boundaries, and a string";

fn parse_length(value: &Value) -> Result<usize, String> {
    let length = value.as_f64().filter(|length| (0.0..=4096.0).contains(length)).ok_or(SLUGIFY)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4096")]
    Ok(length as usize)
}

fn from_yaml(
    arguments: &[Value],
    name: &str,
    wanted: &str,
    fits: fn(&Value) -> bool,
) -> Result<Value, String> {
    let [Value::String(text)] = arguments else { return Err(format!("{name} takes one string")) };
    let value = yaml::read(text)?;
    if fits(&value) { Ok(value) } else { Err(format!("the YAML is not {wanted}")) }
}

/// Parsed templates of one ApplicationSet.
pub(crate) struct Templates<'e> {
    engine: Option<&'e Engine>,
    cache: HashMap<String, Rc<Template<'e>>>,
}

impl<'e> Templates<'e> {
    pub(crate) fn new(engine: Option<&'e Engine>) -> Self {
        Self { engine, cache: HashMap::new() }
    }

    /// Returns true if the ApplicationSet uses Go templates.
    pub(crate) fn uses_go_templates(&self) -> bool {
        self.engine.is_some()
    }

    /// Renders a string, charging the steps and the size of the result to the budget.
    pub(crate) fn render(
        &mut self,
        text: &str,
        parameters: &Value,
        budget: &mut Budget,
    ) -> Result<String, Problem> {
        if !text.contains("{{") {
            return Ok(text.to_owned());
        }
        let Some(engine) = self.engine else {
            budget.take_steps(1)?;
            let rendered = simple_templates::render(text, parameters, TEXT_LIMITS.output_bytes)?;
            budget.take_bytes(rendered.len())?;
            return Ok(rendered);
        };
        let template = self.parse_cached(engine, text)?;
        let (rendered, steps) = template.render_within(parameters, TEXT_LIMITS);
        budget.take_steps(steps.saturating_add(1))?;
        let rendered = rendered.map_err(|error| Problem::Execute {
            template: truncate_template(text),
            reason: error.to_string(),
        })?;
        budget.take_bytes(rendered.len())?;
        Ok(rendered)
    }

    fn parse_cached(&mut self, engine: &'e Engine, text: &str) -> Result<Rc<Template<'e>>, Problem> {
        if let Some(template) = self.cache.get(text) {
            return Ok(template.clone());
        }
        let template = engine.parse("base", text).map_err(|error| Problem::Parse {
            template: truncate_template(text),
            reason: error.to_string(),
        })?;
        let template = Rc::new(template);
        if self.cache.len() < CACHED_TEMPLATES_MAX {
            self.cache.insert(text.to_owned(), template.clone());
        }
        Ok(template)
    }
}

fn truncate_template(text: &str) -> String {
    let beginning = name_rules::truncate(text, SHOWN_MAX);
    if beginning.len() < text.len() { format!("{beginning}…") } else { text.to_owned() }
}
