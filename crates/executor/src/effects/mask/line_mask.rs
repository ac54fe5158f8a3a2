//! Masks a text line by line, emitting each line before the next arrives.

use std::sync::Arc;

use super::{MASK, Mask};

/// Number of preceding bytes searched together with a line, because a value can span lines. In any encoding,
/// the beginning of a value shorter than [`PREFIX_BYTES`](super::PREFIX_BYTES) fits into this size.
const CONTEXT_BYTES: usize = 96;
/// Number of preceding bytes searched if a value is known to continue in the next line. No encoding of a
/// value is longer.
const OPEN_VALUE_CONTEXT_BYTES: usize = 64 * 1024;

/// Masks a text line by line, including values that span lines. A value is recognized only once its beginning
/// is complete. If it starts at the very end of a line, a few of its characters may remain visible.
#[derive(Clone, Debug)]
pub struct LineMask {
    mask: Arc<Mask>,
    /// Last bytes of the preceding text, unmasked.
    context: String,
}

impl LineMask {
    /// Creates a mask at the beginning of a text.
    pub fn new(mask: Arc<Mask>) -> Self {
        Self { mask, context: String::new() }
    }

    /// Masks the next line, including the continuation of values from earlier lines.
    pub fn mask_line(&mut self, line: &str) -> String {
        if self.mask.patterns.is_empty() {
            return line.to_owned();
        }
        let mut text = std::mem::take(&mut self.context);
        if !text.is_empty() {
            text.push('\n');
        }
        let begins = text.len();
        text.push_str(line);
        let places = self.mask.value_ranges(&text);
        let mut shown = line.to_owned();
        for place in places.iter().rev().filter(|place| place.end > begins) {
            let within = place.start.saturating_sub(begins)..place.end.saturating_sub(begins);
            shown.replace_range(within, MASK);
        }
        let is_open = |end: usize| text.get(end..).is_none_or(|rest| rest.trim().is_empty());
        let open = places.last().filter(|place| is_open(place.end)).map(|place| place.start);
        let usual = text.len().saturating_sub(CONTEXT_BYTES);
        let from = open
            .map_or(usual, |start| start.min(usual))
            .max(text.len().saturating_sub(OPEN_VALUE_CONTEXT_BYTES));
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.replace_range(..from, "");
        self.context = text;
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
        let mut mask = LineMask::new(Arc::new(Mask::from_objects([&Object::try_from(secret).unwrap()])));
        text.lines().map(|line| mask.mask_line(line)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_line_is_masked_and_its_surroundings_stay() {
        let value = "correct horse battery";
        assert_eq!(
            lines(value, "begin\nuse correct horse battery now\nend\ncorrect horse battery"),
            "begin\nuse ++++++++ now\nend\n++++++++"
        );
        assert_eq!(lines(value, "größer\n\nhorse"), "größer\n\nhorse");
        assert_eq!(lines("", "nothing is secret"), "nothing is secret");
    }

    /// Programs fold long values. No line may reveal any part of the value, however many there are.
    #[test]
    fn a_folded_value_is_masked_in_all_its_lines() {
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

    /// The value begins at the end of a line, too short to be recognized.
    #[test]
    fn the_rest_of_a_value_is_masked_after_an_unrecognized_beginning() {
        let shown =
            lines("correct-horse-battery-staple", "password: correct-\nhorse-battery-staple, and so on");
        assert_eq!(shown, "password: correct-\n++++++++, and so on");
    }
}
