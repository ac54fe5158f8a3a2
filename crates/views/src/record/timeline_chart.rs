//! Timeline drawn to scale, with a line for the operation, each wave and each object.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::{Timestamp, format_duration};

use super::markup::{Attribute, Markup};
use super::timeline::{Line, OperationTimeline, Span, Tone};

const WIDTH: u64 = 1080;
/// Left edge of the spans, to the right of the names.
const SPANS_X: u64 = 320;
const SPANS_WIDTH: u64 = WIDTH - SPANS_X - 12;
const LINE_HEIGHT: u64 = 22;
const HEADER_HEIGHT: u64 = 28;
/// Maximum number of objects to draw: those with failures or unusual waits first, then the slowest.
const OBJECTS_MAX: usize = 150;
/// Maximum number of characters in a name.
const NAME_CHARS: usize = 46;
/// Minimum distance between two grid lines.
const GRID_SPACING_MIN: u64 = 90;
/// Grid intervals to choose from, in milliseconds.
const GRID_INTERVALS: [u64; 16] = [
    100, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
    7_200_000, 21_600_000, 86_400_000,
];

/// Indentation level of a line. The first two levels are headings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Operation,
    Wave,
    Object,
}

/// Returns the lines to draw, and the number of omitted objects.
pub fn select_lines(story: &OperationTimeline) -> (Vec<(Level, &Line)>, usize) {
    let mut objects: Vec<&Line> =
        story.waves.iter().flat_map(|wave| &wave.objects).filter(|line| !line.spans.is_empty()).collect();
    let left = objects.len().saturating_sub(OBJECTS_MAX);
    objects.sort_by_key(|line| (!line.is_notable(), std::cmp::Reverse(line.duration(story.latest_time))));
    let wanted: BTreeSet<*const Line> =
        objects.into_iter().take(OBJECTS_MAX).map(std::ptr::from_ref).collect();
    let mut lines = vec![(Level::Operation, &story.operation)];
    for wave in &story.waves {
        lines.push((Level::Wave, &wave.line));
        let of_wave = wave.objects.iter().filter(|line| wanted.contains(&std::ptr::from_ref(*line)));
        lines.extend(of_wave.map(|line| (Level::Object, line)));
    }
    (lines, left)
}

/// Draws the timeline up to the given time.
pub fn draw_timeline(story: &OperationTimeline, until: Timestamp) -> Markup {
    let (lines, _) = select_lines(story);
    let (from, to) = (story.start_time(), until.max(story.start_time() + Duration::from_millis(100)));
    let scale = Scale { from, length_millis: millis(to.since(from)).max(1), to };
    let height =
        HEADER_HEIGHT.saturating_add(LINE_HEIGHT.saturating_mul(count(lines.len()))).saturating_add(8);
    let text = format!(
        "From {from}: {} in {} waves. The table below has the same data.",
        format_duration(to.since(from)),
        story.waves.len()
    );
    let view = format!("0 0 {WIDTH} {height}");
    let rows = lines.iter().enumerate().map(|(index, (level, line))| {
        draw_row(line, *level, HEADER_HEIGHT.saturating_add(LINE_HEIGHT.saturating_mul(count(index))), &scale)
    });
    let attributes =
        [("class", "timeline"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", text.as_str())];
    Markup::element("svg", &attributes, std::iter::once(draw_grid(&scale, height)).chain(rows))
}

/// Maps times to positions.
struct Scale {
    from: Timestamp,
    to: Timestamp,
    /// Length of the timeline in milliseconds.
    length_millis: u64,
}

impl Scale {
    fn x_of(&self, at: Timestamp) -> u64 {
        let passed = millis(at.clamp(self.from, self.to).since(self.from));
        SPANS_X.saturating_add(passed.saturating_mul(SPANS_WIDTH) / self.length_millis)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Returns an element with numeric attributes.
fn numeric_element(
    name: &'static str,
    class: &str,
    numbers: &[(&'static str, u64)],
    inside: Option<Markup>,
) -> Markup {
    let numbers: Vec<(&'static str, String)> =
        numbers.iter().map(|(name, number)| (*name, number.to_string())).collect();
    let attributes: Vec<Attribute<'_>> = std::iter::once(("class", class))
        .chain(numbers.iter().map(|(name, number)| (*name, number.as_str())))
        .collect();
    Markup::element(name, &attributes, inside)
}

fn draw_grid(scale: &Scale, height: u64) -> Markup {
    let is_wide = |step: &u64| step.saturating_mul(SPANS_WIDTH) / scale.length_millis >= GRID_SPACING_MIN;
    // For a timeline of several months, draw as many grid lines as fit.
    let step = GRID_INTERVALS
        .into_iter()
        .find(is_wide)
        .unwrap_or(scale.length_millis.saturating_mul(GRID_SPACING_MIN) / SPANS_WIDTH)
        .max(1);
    let lines = (0..=scale.length_millis / step).map(|number| {
        let passed = Duration::from_millis(step.saturating_mul(number));
        let x = scale.x_of(scale.from + passed);
        let label = if number == 0 { "0".to_owned() } else { format!("+{}", format_duration(passed)) };
        Markup::concat([
            numeric_element(
                "line",
                "grid",
                &[("x1", x), ("x2", x), ("y1", HEADER_HEIGHT.saturating_sub(6)), ("y2", height)],
                None,
            ),
            numeric_element(
                "text",
                "axis",
                &[("x", x.saturating_add(2)), ("y", 14)],
                Some(Markup::text(&label)),
            ),
        ])
    });
    Markup::concat(lines)
}

fn draw_row(line: &Line, level: Level, y: u64, scale: &Scale) -> Markup {
    let (class, indent, thick) = match level {
        Level::Operation => ("head", 2, LINE_HEIGHT - 8),
        Level::Wave => ("head", 12, LINE_HEIGHT - 8),
        Level::Object => ("", 24, LINE_HEIGHT - 11),
    };
    let name = Markup::concat([
        Markup::text(&truncate_name(&line.label)),
        Markup::text_element("title", &line.label),
    ]);
    let name = numeric_element("text", "", &[("x", indent), ("y", y.saturating_add(15))], Some(name));
    let top = y.saturating_add(4);
    let spans = line.spans.iter().map(|span| draw_bar(line, span, top, thick, scale));
    let marks = line.marks.iter().map(|mark| {
        let x = scale.x_of(mark.at);
        let path = format!("M{} {}h8l-4 6z", x.saturating_sub(4), top.saturating_sub(3));
        let class = format!("mark {}", mark.tone.class());
        let title = Markup::text_element("title", &format!("{}: {}", mark.at, mark.text));
        Markup::element("path", &[("class", &class), ("d", &path)], [title])
    });
    Markup::element("g", &[("class", class)], std::iter::once(name).chain(spans).chain(marks))
}

fn draw_bar(line: &Line, span: &Span, top: u64, thick: u64, scale: &Scale) -> Markup {
    let end = span.to.unwrap_or(scale.to);
    let (from, to) = (scale.x_of(span.from), scale.x_of(end));
    let attempt = if span.attempt > 1 { format!(" (attempt {})", span.attempt) } else { String::new() };
    let reason = if span.reason.is_empty() { String::new() } else { format!(": {}", span.reason) };
    let took = format_duration(end.since(span.from));
    let title =
        Markup::text_element("title", &format!("{}: {}{attempt}, {took}{reason}", line.label, span.state));
    let wide = to.saturating_sub(from).max(2);
    let bar = numeric_element(
        "rect",
        span.tone.class(),
        &[("x", from), ("y", top), ("width", wide), ("height", thick), ("rx", 2)],
        Some(title),
    );
    if span.tone != Tone::Wait || wide <= 6 {
        return bar;
    }
    // Draw a line through the middle, so that waits are recognizable without color.
    let middle = top.saturating_add(thick / 2);
    let through =
        [("x1", from.saturating_add(2)), ("x2", to.saturating_sub(2)), ("y1", middle), ("y2", middle)];
    Markup::concat([bar, numeric_element("line", "through", &through, None)])
}

fn truncate_name(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARS.saturating_sub(1)).chain(['…']).collect()
}
