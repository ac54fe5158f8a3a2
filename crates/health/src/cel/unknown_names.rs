//! Unknown names in an expression, found when it is parsed rather than when it is evaluated.

use super::parse::Expression;

/// Functions and methods, with their minimum and maximum number of arguments. A method's receiver counts as
/// an argument.
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

/// Returns all unknown functions and names. `is_name` must return true for known names.
pub(super) fn find_unknown_names(expression: &Expression, is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let mut search = NameSearch { is_name, bound: Vec::new(), problems: Vec::new() };
    search.visit(expression);
    search.problems
}

struct NameSearch<'e, N> {
    is_name: N,
    /// Variables of macros. The innermost variable is last.
    bound: Vec<&'e str>,
    problems: Vec<String>,
}

impl<'e, N: Fn(&str) -> bool> NameSearch<'e, N> {
    fn add_problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn visit_all(&mut self, expressions: impl IntoIterator<Item = &'e Expression>) {
        expressions.into_iter().for_each(|one| self.visit(one));
    }

    fn visit(&mut self, expression: &'e Expression) {
        match expression {
            Expression::Literal(_) => {}
            Expression::Name(name) => {
                if !self.bound.contains(&name.as_str()) && !(self.is_name)(name) {
                    self.add_problem(format!("unknown name {name}"));
                }
            }
            Expression::List(entries) => self.visit_all(entries),
            Expression::Map(entries) => entries.iter().for_each(|(key, value)| self.visit_all([key, value])),
            Expression::Not(inner) | Expression::Negate(inner) => self.visit(inner),
            Expression::Binary(_, left, right) => self.visit_all([left.as_ref(), right.as_ref()]),
            Expression::Choice(condition, yes, no) => {
                self.visit_all([condition.as_ref(), yes.as_ref(), no.as_ref()])
            }
            Expression::Field { object: of, .. } => self.visit(of),
            Expression::Index { object: of, index: at, .. } => self.visit_all([of.as_ref(), at.as_ref()]),
            Expression::Call { object: of, name, arguments } => {
                self.visit_call(of.as_deref(), name, arguments)
            }
        }
    }

    fn visit_call(&mut self, of: Option<&'e Expression>, name: &str, arguments: &'e [Expression]) {
        match (of, name, arguments) {
            (None, "has", [Expression::Field { object: of, .. }]) => self.visit(of),
            (None, "has", _) => {
                self.add_problem("`has` needs a field, such as has(object.status)".to_owned());
            }
            (
                Some(of),
                "all" | "exists" | "exists_one" | "filter" | "map",
                [Expression::Name(each), rest @ ..],
            ) if rest.len() == 1 || rest.len() == 2 && name == "map" => {
                self.visit(of);
                self.bound.push(each);
                self.visit_all(rest);
                self.bound.pop();
            }
            (Some(Expression::Name(optional)), "of", [value]) if optional == "optional" => self.visit(value),
            (Some(Expression::Name(optional)), "none", []) if optional == "optional" => {}
            _ => {
                self.visit_all(of);
                self.visit_all(arguments);
                let values = arguments.len() + usize::from(of.is_some());
                match FUNCTIONS.iter().find(|(known, ..)| *known == name) {
                    Some((_, least, most)) if (*least..=*most).contains(&values) => {}
                    Some(_) => self.add_problem(format!("wrong number of arguments for {name}")),
                    None => self.add_problem(format!("unknown function {name}")),
                }
            }
        }
    }
}
