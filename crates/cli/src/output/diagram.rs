//! Mermaid flow charts for Markdown: nested boxes with arrows between them.

use std::fmt::Write as _;

use super::one_line;

/// Colors of the boxes.
const CLASSES: &str = "\
  classDef create fill:#e6f6ec,stroke:#2e8b57,color:#14402a
  classDef apply fill:#e8f1fb,stroke:#3b7dc4,color:#14304f
  classDef prune fill:#fdecea,stroke:#c0392b,color:#5a1a13
  classDef idle fill:#f3f4f6,stroke:#9aa3ad,color:#4a525b
  classDef hook stroke-width:2px,stroke-dasharray:5 3
";

/// A diagram that grows downward.
pub struct Diagram {
    body: String,
    nodes: usize,
    hooks: Vec<String>,
}

/// Appearance of a node.
#[derive(Clone, Copy)]
pub struct NodeStyle {
    /// Class that defines the colors.
    pub class: &'static str,
    /// True for a rounded box with a dashed border.
    pub is_hook: bool,
}

impl Diagram {
    pub fn new() -> Self {
        Self { body: "flowchart TD\n".to_owned(), nodes: 0, hooks: Vec::new() }
    }

    /// Adds a line. Writing to a String can't fail.
    fn add_line(&mut self, line: &str) {
        let _ = writeln!(self.body, "{line}");
    }

    /// Begins a box that contains other boxes.
    pub fn begin_group(&mut self, id: &str, name: &str) {
        self.add_line(&format!("  subgraph {id}[\"{}\"]", escape_label(name)));
    }

    pub fn end_group(&mut self) {
        self.add_line("  end");
    }

    /// Begins a box with its nodes side by side.
    pub fn begin_row(&mut self, id: &str, name: &str) {
        self.add_line(&format!("    subgraph {id}[\"{}\"]", escape_label(name)));
        self.add_line("      direction LR");
    }

    pub fn end_row(&mut self) {
        self.add_line("    end");
    }

    /// Adds a node with a name and a word below it. Returns its ID for arrows.
    pub fn add_node(&mut self, name: &str, word: &str, look: NodeStyle) -> String {
        let id = format!("t{}", self.nodes);
        self.add_node_with_lines(name, [word], look);
        id
    }

    /// Adds a node with a name and lines below it, skipping empty lines.
    pub fn add_node_with_lines<'a>(
        &mut self,
        name: &str,
        lines: impl IntoIterator<Item = &'a str>,
        look: NodeStyle,
    ) {
        let NodeStyle { class, is_hook } = look;
        let lines = lines.into_iter().filter(|line| !line.is_empty());
        let below: String = lines.map(|line| format!("<br/><i>{}</i>", escape_label(line))).collect();
        let label = format!("{}{below}", escape_label(name));
        let number = self.nodes;
        self.nodes = number.saturating_add(1);
        if is_hook {
            self.add_line(&format!("      t{number}([\"{label}\"]):::{class}"));
            self.hooks.push(format!("t{number}"));
        } else {
            self.add_line(&format!("      t{number}[\"{label}\"]:::{class}"));
        }
    }

    /// Adds an arrow. An arrow with a label is dashed.
    pub fn add_arrow(&mut self, from: &str, text: &str, to: &str) {
        match text {
            "" => self.add_line(&format!("  {from} --> {to}")),
            text => self.add_line(&format!("  {from} -. {text} .-> {to}")),
        }
    }

    pub fn finish(mut self) -> String {
        self.body.push_str(CLASSES);
        if !self.hooks.is_empty() {
            let hooks = self.hooks.join(",");
            self.add_line(&format!("  class {hooks} hook"));
        }
        self.body
    }
}

/// Escapes quotes and brackets, which are special in Mermaid.
fn escape_label(label: &str) -> String {
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
