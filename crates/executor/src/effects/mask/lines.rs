//! Lines of one text, each of which is given away before the next one is there.

use std::sync::Arc;

use super::{MASK, Mask};

/// So much of what was before a line is looked at with it: a value may go on in the next line. The beginning of a value that is
/// shorter than [`BEGINNING_BYTES`](super::BEGINNING_BYTES) is no longer than this, however it is written.
const BEFORE_BYTES: usize = 96;
/// The same of a value that is known to go on: no value is known in a longer form.
const OPEN_BYTES: usize = 64 * 1024;

/// Masks the lines of one text, one after the other. A value that goes on over several lines is masked in those that follow
/// as well. What a line shows is not known to be a value as long as it is less than its beginning: the few signs of one that
/// begins at the very end of a line may be seen.
#[derive(Clone, Debug)]
pub struct LineMask {
    mask: Arc<Mask>,
    /// The end of what was before, as it was.
    before: String,
}

impl LineMask {
    /// At the beginning of a text.
    pub fn new(mask: Arc<Mask>) -> Self {
        Self { mask, before: String::new() }
    }

    /// The next line, with all values masked that it shows or goes on with.
    pub fn hidden(&mut self, line: &str) -> String {
        if self.mask.patterns.is_empty() {
            return line.to_owned();
        }
        let mut text = std::mem::take(&mut self.before);
        if !text.is_empty() {
            text.push('\n');
        }
        let begins = text.len();
        text.push_str(line);
        let places = self.mask.places(&text);
        let mut shown = line.to_owned();
        for place in places.iter().rev().filter(|place| place.end > begins) {
            let within = place.start.saturating_sub(begins)..place.end.saturating_sub(begins);
            shown.replace_range(within, MASK);
        }
        let is_open = |end: usize| text.get(end..).is_none_or(|rest| rest.trim().is_empty());
        let open = places.last().filter(|place| is_open(place.end)).map(|place| place.start);
        let usual = text.len().saturating_sub(BEFORE_BYTES);
        let from = open.map_or(usual, |start| start.min(usual)).max(text.len().saturating_sub(OPEN_BYTES));
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.replace_range(..from, "");
        self.before = text;
        shown
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};
    use tidegate_model::Object;

    use super::*;

    fn lines(value: &str, text: &str) -> String {
        let secret: Value = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": value}});
        let mut mask = LineMask::new(Arc::new(Mask::of([&Object::try_from(secret).unwrap()])));
        text.lines().map(|line| mask.hidden(line)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_line_is_masked_and_what_is_around_it_stays() {
        let value = "correct horse battery";
        assert_eq!(
            lines(value, "begin\nuse correct horse battery now\nend\ncorrect horse battery"),
            "begin\nuse ++++++++ now\nend\n++++++++"
        );
        assert_eq!(lines(value, "größer\n\nhorse"), "größer\n\nhorse");
        assert_eq!(lines("", "nothing is secret"), "nothing is secret");
    }

    /// As programs print what is long: no line shows anything of it, however many there are.
    #[test]
    fn a_value_that_is_folded_is_masked_in_all_its_lines() {
        let value: String = (0..400).map(|number| format!("{number:03}-")).collect();
        for whole in [value.clone(), STANDARD.encode(&value)] {
            for width in [20, 64, 76] {
                let signs: Vec<char> = whole.chars().collect();
                let folded: Vec<String> = signs.chunks(width).map(|line| line.iter().collect()).collect();
                let shown = lines(&value, &format!("the key:\n{}\nand more", folded.join("\n")));
                let masked = vec![MASK; folded.len()].join("\n");
                assert_eq!(shown, format!("the key:\n{masked}\nand more"), "{width}");
            }
        }
    }

    /// Not even where its beginning stands at the end of a line, too short to be known.
    #[test]
    fn the_rest_of_a_value_is_masked_whose_beginning_was_not_known() {
        let shown =
            lines("correct-horse-battery-staple", "password: correct-\nhorse-battery-staple, and so on");
        assert_eq!(shown, "password: correct-\n++++++++, and so on");
    }
}
