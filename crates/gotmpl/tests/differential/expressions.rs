//! Random pipelines. In templates without intentional errors, they are all valid. In other templates, most of
//! them are valid.

use crate::calls::{CUTTING, FUNCTIONS, Function};
use crate::choices::Choices;

/// Returns a Go string literal.
pub fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A variable, and the kind of its value. The letters for kinds are the same as for parameters.
type Variable = (String, char);

pub struct Expressions<'c> {
    pub choices: &'c mut Choices,
    /// Visible variables, newest last.
    pub variables: Vec<Variable>,
    /// True if the template contains no intentional errors.
    pub is_careful: bool,
    /// True if all characters are ASCII.
    pub is_ascii: bool,
    /// True if dot is the data of the template.
    pub dot_is_root: bool,
    declared: usize,
}

impl<'c> Expressions<'c> {
    pub fn new(choices: &'c mut Choices, is_careful: bool, is_ascii: bool) -> Self {
        Self { choices, variables: Vec::new(), is_careful, is_ascii, dot_is_root: true, declared: 0 }
    }

    /// Declares a variable, which may shadow an existing variable.
    pub fn declare(&mut self, kind: char) -> String {
        self.declared += 1;
        let name = format!("$v{}", self.declared % 4);
        self.variables.push((name.clone(), kind));
        name
    }

    /// Returns a variable that can be assigned, and its kind. In templates with intentional errors, the
    /// variable is sometimes undeclared.
    pub fn variable(&mut self) -> Option<Variable> {
        let seen = self.visible_variables();
        if self.is_careful {
            return (!seen.is_empty()).then(|| seen[self.choices.next_below(seen.len())].clone());
        }
        Some(match self.choices.next_below(seen.len() + 1) {
            0 if self.choices.one_in(40) => ("$v0".to_owned(), 'a'),
            0 => ("$".to_owned(), 'a'),
            at => seen[at - 1].clone(),
        })
    }

    /// Returns the visible variables, newest first, without shadowed variables.
    fn visible_variables(&self) -> Vec<Variable> {
        let mut seen: Vec<Variable> = Vec::new();
        for variable in self.variables.iter().rev() {
            if !seen.iter().any(|(name, _)| *name == variable.0) {
                seen.push(variable.clone());
            }
        }
        seen
    }

    /// Returns a variable of this kind. If there is none, returns `$` or, in a template without intentional
    /// errors, another expression of this kind.
    pub fn variable_of(&mut self, kind: char) -> String {
        let is_careful = self.is_careful;
        let mut fitting = self.visible_variables();
        fitting.retain(|(_, other)| kind == 'a' || !is_careful || *other == kind);
        match self.choices.next_below(fitting.len() + 1) {
            0 if is_careful => match kind {
                's' => "\"v\"".to_owned(),
                'b' => "true".to_owned(),
                'l' => "$.l".to_owned(),
                'm' => "$.m".to_owned(),
                _ => "$".to_owned(),
            },
            0 if self.choices.one_in(40) => "$v0".to_owned(),
            0 => "$".to_owned(),
            at => fitting[at - 1].0.clone(),
        }
    }

    /// Returns a random pipeline for an action.
    pub fn pipeline(&mut self, kind: char, depth: usize) -> String {
        let bare = |text: String| match text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            // Keep the parentheses if the text contains more of them, because the outer ones may not be a
            // pair.
            Some(inside) if !inside.contains(['(', ')']) => inside.to_owned(),
            _ => text,
        };
        match self.choices.next_below(6) {
            0 => self.atom(kind),
            5 if kind == 'a' => self.version(),
            _ if depth == 0 => self.atom(kind),
            _ => bare(self.call(kind, depth - 1)),
        }
    }

    /// Returns an expression for a semantic version or one of its fields.
    fn version(&mut self) -> String {
        let version = self.atom('v');
        let parts =
            ["", ".Major", ".Minor", ".Patch", ".Original", ".Prerelease", ".Metadata", ".String", ".Nope"];
        let is_careful = self.is_careful;
        match self.choices.choose_where(&parts, |part| !is_careful || part != ".Nope") {
            "" => format!("semver {version}"),
            part => format!("(semver {version}){part}"),
        }
    }

    /// Returns an expression for an argument.
    pub fn operand(&mut self, kind: char, depth: usize) -> String {
        let kind = match kind {
            '?' => 'a',
            's' | 'n' | 'b' | 'l' | 'm' if !self.is_careful && self.choices.one_in(16) => {
                self.choices.choose(&["a", "s", "n", "b", "l", "m"]).chars().next().unwrap_or('a')
            }
            '=' => self.choices.choose(&["n", "s", "b", "n", "a"]).chars().next().unwrap_or('a'),
            kind => kind,
        };
        let has_calls = matches!(kind, 'a' | 's' | 'n' | 'b' | 'l' | 'm');
        if depth == 0 || !has_calls || self.choices.next_below(3) == 0 {
            return self.atom(kind);
        }
        self.call(kind, depth - 1)
    }

    /// Returns a function call in parentheses.
    fn call(&mut self, kind: char, depth: usize) -> String {
        let gives = |one: &Function| one.2 == kind || (kind == 'a' && !matches!(one.2, 't' | 'V'));
        let is_left_out = |one: &Function| {
            (self.is_careful && one.1.contains('?')) || (!self.is_ascii && CUTTING.contains(&one.0))
        };
        let fits = |one: &&Function| gives(one) && !is_left_out(one);
        let fitting: Vec<&Function> = FUNCTIONS.iter().filter(fits).collect();
        if fitting.is_empty() {
            return self.atom(kind);
        }
        let (name, parameters, _) = fitting[self.choices.next_below(fitting.len())];
        let mut arguments = self.arguments(parameters, depth);
        if !self.is_careful {
            match self.choices.next_below(40) {
                38 => drop(arguments.pop()),
                39 => arguments.push(self.atom('s')),
                _ => {}
            }
        }
        if self.choices.next_below(3) == 1
            && let Some(last) = arguments.pop()
        {
            return format!("({last} | {name}{})", joined(&arguments));
        }
        let call = format!("({name}{})", joined(&arguments));
        if !self.is_careful && self.choices.one_in(12) {
            return call + self.choices.choose(&[".a", ".x.y", "._0", ".name"]);
        }
        call
    }

    fn arguments(&mut self, parameters: &str, depth: usize) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut last = 'a';
        // `eq` and similar functions fail unless all arguments have the same kind.
        let compared = if self.choices.next_below(2) == 0 { 's' } else { 'c' };
        for parameter in parameters.chars() {
            let parameter = if parameter == '=' && self.is_careful { compared } else { parameter };
            if parameter == '*' {
                // The repeated parameter already has an argument. Remove it, keep it, or add more arguments.
                match self.choices.next_below(4) {
                    3 if !self.is_careful => drop(arguments.pop()),
                    more => arguments.extend((0..more).map(|_| self.operand(last, depth))),
                }
            } else {
                arguments.push(self.operand(parameter, depth));
                last = parameter;
            }
        }
        arguments
    }
}

fn joined(arguments: &[String]) -> String {
    arguments.iter().map(|argument| format!(" {argument}")).collect()
}
