//! A Mermaid flow chart, for Markdown: boxes in boxes, and arrows between them.

use std::fmt::Write as _;

use super::one_line;

/// Colours of the boxes.
const CLASSES: &str = "\
  classDef create fill:#e6f6ec,stroke:#2e8b57,color:#14402a
  classDef apply fill:#e8f1fb,stroke:#3b7dc4,color:#14304f
  classDef prune fill:#fdecea,stroke:#c0392b,color:#5a1a13
  classDef idle fill:#f3f4f6,stroke:#9aa3ad,color:#4a525b
  classDef hook stroke-width:2px,stroke-dasharray:5 3
";

/// A diagram that grows downwards.
pub struct Diagram {
    body: String,
    nodes: usize,
    hooks: Vec<String>,
}

/// How a node looks.
#[derive(Clone, Copy)]
pub struct Look {
    /// Its colours: one of those there are.
    pub class: &'static str,
    /// Rounded, with a broken line.
    pub is_hook: bool,
}

impl Diagram {
    pub fn new() -> Self {
        Self { body: "flowchart TD\n".to_owned(), nodes: 0, hooks: Vec::new() }
    }

    /// Writing to a String cannot fail.
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.body, "{line}");
    }

    /// Begins a box for others.
    pub fn begin_group(&mut self, id: &str, name: &str) {
        self.line(&format!("  subgraph {id}[\"{}\"]", text(name)));
    }

    pub fn end_group(&mut self) {
        self.line("  end");
    }

    /// Begins a box whose nodes are side by side.
    pub fn begin_row(&mut self, id: &str, name: &str) {
        self.line(&format!("    subgraph {id}[\"{}\"]", text(name)));
        self.line("      direction LR");
    }

    pub fn end_row(&mut self) {
        self.line("    end");
    }

    /// A node with a name, and below it a word.
    pub fn node(&mut self, name: &str, word: &str, look: Look) {
        self.node_of_lines(name, [word], look);
    }

    /// A node with a name, and below it lines; those that are empty are left out.
    pub fn node_of_lines<'a>(&mut self, name: &str, lines: impl IntoIterator<Item = &'a str>, look: Look) {
        let Look { class, is_hook } = look;
        let lines = lines.into_iter().filter(|line| !line.is_empty());
        let below: String = lines.map(|line| format!("<br/><i>{}</i>", text(line))).collect();
        let label = format!("{}{below}", text(name));
        let number = self.nodes;
        self.nodes = number.saturating_add(1);
        if is_hook {
            self.line(&format!("      t{number}([\"{label}\"]):::{class}"));
            self.hooks.push(format!("t{number}"));
        } else {
            self.line(&format!("      t{number}[\"{label}\"]:::{class}"));
        }
    }

    /// An arrow; a broken one where it has words.
    pub fn arrow(&mut self, from: &str, words: &str, to: &str) {
        match words {
            "" => self.line(&format!("  {from} --> {to}")),
            words => self.line(&format!("  {from} -. {words} .-> {to}")),
        }
    }

    pub fn finish(mut self) -> String {
        self.body.push_str(CLASSES);
        if !self.hooks.is_empty() {
            let hooks = self.hooks.join(",");
            self.line(&format!("  class {hooks} hook"));
        }
        self.body
    }
}

/// Quotes and brackets have a meaning in Mermaid.
fn text(label: &str) -> String {
    one_line(label).chars().fold(String::new(), |mut text, c| {
        match c {
            '"' => text.push_str("#quot;"),
            '#' => text.push_str("#35;"),
            '<' => text.push_str("#lt;"),
            '>' => text.push_str("#gt;"),
            '&' => text.push_str("#amp;"),
            '`' => text.push_str("#96;"),
            c => text.push(c),
        }
        text
    })
}
