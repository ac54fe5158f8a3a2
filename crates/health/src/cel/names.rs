//! The names in an expression that stand for nothing: they show when it is read, and not only when it is run.

use super::syntax::Expression;

/// Functions and methods, with how many values they take at least and at most; the object of a method is one of them.
const FUNCTIONS: [(&str, usize, usize); 20] = [
    ("size", 1, 1),
    ("contains", 2, 2),
    ("startsWith", 2, 2),
    ("endsWith", 2, 2),
    ("matches", 2, 2),
    ("lowerAscii", 1, 1),
    ("upperAscii", 1, 1),
    ("trim", 1, 1),
    ("replace", 3, 3),
    ("split", 2, 2),
    ("join", 1, 2),
    ("dyn", 1, 1),
    ("string", 1, 1),
    ("int", 1, 1),
    ("uint", 1, 1),
    ("double", 1, 1),
    ("bool", 1, 1),
    ("orValue", 2, 2),
    ("hasValue", 1, 1),
    ("value", 1, 1),
];

/// All functions and names that nothing stands for, where `is_name` knows the names.
pub(super) fn unknown(expression: &Expression, is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let mut search = Search { is_name, bound: Vec::new(), found: Vec::new() };
    search.look(expression);
    search.found
}

struct Search<'e, N> {
    is_name: N,
    /// Names of macros, the innermost last.
    bound: Vec<&'e str>,
    found: Vec<String>,
}

impl<'e, N: Fn(&str) -> bool> Search<'e, N> {
    fn note(&mut self, problem: String) {
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    fn each(&mut self, expressions: impl IntoIterator<Item = &'e Expression>) {
        expressions.into_iter().for_each(|one| self.look(one));
    }

    fn look(&mut self, expression: &'e Expression) {
        match expression {
            Expression::Literal(_) => {}
            Expression::Name(name) => {
                if !self.bound.contains(&name.as_str()) && !(self.is_name)(name) {
                    self.note(format!("nothing is called {name}"));
                }
            }
            Expression::List(entries) => self.each(entries),
            Expression::Map(entries) => entries.iter().for_each(|(key, value)| self.each([key, value])),
            Expression::Not(inner) | Expression::Negate(inner) => self.look(inner),
            Expression::Binary(_, left, right) => self.each([left.as_ref(), right.as_ref()]),
            Expression::Choice(condition, yes, no) => {
                self.each([condition.as_ref(), yes.as_ref(), no.as_ref()])
            }
            Expression::Field { of, .. } => self.look(of),
            Expression::Index { of, at, .. } => self.each([of.as_ref(), at.as_ref()]),
            Expression::Call { of, name, arguments } => self.call(of.as_deref(), name, arguments),
        }
    }

    fn call(&mut self, of: Option<&'e Expression>, name: &str, arguments: &'e [Expression]) {
        match (of, name, arguments) {
            (None, "has", [Expression::Field { of, .. }]) => self.look(of),
            (None, "has", _) => self.note("has needs a field, such as has(object.status)".to_owned()),
            (
                Some(of),
                "all" | "exists" | "exists_one" | "filter" | "map",
                [Expression::Name(each), rest @ ..],
            ) if rest.len() == 1 || rest.len() == 2 && name == "map" => {
                self.look(of);
                self.bound.push(each);
                self.each(rest);
                self.bound.pop();
            }
            (Some(Expression::Name(optional)), "of", [value]) if optional == "optional" => self.look(value),
            (Some(Expression::Name(optional)), "none", []) if optional == "optional" => {}
            _ => {
                self.each(of);
                self.each(arguments);
                let values = arguments.len() + usize::from(of.is_some());
                match FUNCTIONS.iter().find(|(known, ..)| *known == name) {
                    Some((_, least, most)) if (*least..=*most).contains(&values) => {}
                    Some(_) => self.note(format!("{name} takes another number of values")),
                    None => self.note(format!("there is no function {name}")),
                }
            }
        }
    }
}
