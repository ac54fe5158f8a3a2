//! The timeline as a picture: a line for the operation, each wave and each object, with real durations.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::{Timestamp, format_duration};

use super::markup::{Attribute, Markup};
use super::story::{Line, Span, Story, Tone};

const WIDTH: u64 = 1080;
/// Where the spans begin, right of the names.
const NAMES: u64 = 320;
const INNER: u64 = WIDTH - NAMES - 12;
const LINE: u64 = 22;
const TOP: u64 = 28;
/// So many objects are drawn; of more, those that took longest and those that are not well.
const OBJECTS_MAX: usize = 150;
/// Characters of a name that fit.
const NAME_CHARS: usize = 46;
/// Between two lines of the grid at least.
const GRID: u64 = 90;
/// What the lines of the grid may be apart, in milliseconds.
const STEPS: [u64; 16] = [
    100, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
    7_200_000, 21_600_000, 86_400_000,
];

/// How far a line is indented, and whether it is a head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Operation,
    Wave,
    Object,
}

/// The lines that are shown, and how many objects are not.
pub fn chosen(story: &Story) -> (Vec<(Level, &Line)>, usize) {
    let mut objects: Vec<&Line> =
        story.waves.iter().flat_map(|wave| &wave.objects).filter(|line| !line.spans.is_empty()).collect();
    let left = objects.len().saturating_sub(OBJECTS_MAX);
    objects.sort_by_key(|line| (!line.is_notable(), std::cmp::Reverse(line.took(story.at))));
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

/// The timeline, until a moment.
pub fn draw(story: &Story, until: Timestamp) -> Markup {
    let (lines, _) = chosen(story);
    let (from, to) = (story.from(), until.max(story.from() + Duration::from_millis(100)));
    let scale = Scale { from, all: millis(to.since(from)).max(1), to };
    let height = TOP.saturating_add(LINE.saturating_mul(count(lines.len()))).saturating_add(8);
    let words = format!(
        "From {from}: {} in {} waves. The table below says the same.",
        format_duration(to.since(from)),
        story.waves.len()
    );
    let view = format!("0 0 {WIDTH} {height}");
    let rows = lines.iter().enumerate().map(|(index, (level, line))| {
        row(line, *level, TOP.saturating_add(LINE.saturating_mul(count(index))), &scale)
    });
    let attributes =
        [("class", "timeline"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", words.as_str())];
    Markup::element("svg", &attributes, std::iter::once(grid(&scale, height)).chain(rows))
}

/// Where moments are.
struct Scale {
    from: Timestamp,
    to: Timestamp,
    /// In milliseconds.
    all: u64,
}

impl Scale {
    fn x(&self, at: Timestamp) -> u64 {
        let passed = millis(at.clamp(self.from, self.to).since(self.from));
        NAMES.saturating_add(passed.saturating_mul(INNER) / self.all)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// An element whose attributes are numbers.
fn shape(name: &'static str, class: &str, numbers: &[(&'static str, u64)], inside: Option<Markup>) -> Markup {
    let numbers: Vec<(&'static str, String)> =
        numbers.iter().map(|(name, number)| (*name, number.to_string())).collect();
    let attributes: Vec<Attribute<'_>> = std::iter::once(("class", class))
        .chain(numbers.iter().map(|(name, number)| (*name, number.as_str())))
        .collect();
    Markup::element(name, &attributes, inside)
}

fn grid(scale: &Scale, height: u64) -> Markup {
    let is_wide = |step: &u64| step.saturating_mul(INNER) / scale.all >= GRID;
    // Of a time of months there are as many lines as fit.
    let step = STEPS.into_iter().find(is_wide).unwrap_or(scale.all.saturating_mul(GRID) / INNER).max(1);
    let lines = (0..=scale.all / step).map(|number| {
        let passed = Duration::from_millis(step.saturating_mul(number));
        let x = scale.x(scale.from + passed);
        let label = if number == 0 { "0".to_owned() } else { format!("+{}", format_duration(passed)) };
        Markup::all([
            shape(
                "line",
                "grid",
                &[("x1", x), ("x2", x), ("y1", TOP.saturating_sub(6)), ("y2", height)],
                None,
            ),
            shape("text", "axis", &[("x", x.saturating_add(2)), ("y", 14)], Some(Markup::text(&label))),
        ])
    });
    Markup::all(lines)
}

fn row(line: &Line, level: Level, y: u64, scale: &Scale) -> Markup {
    let (class, indent, thick) = match level {
        Level::Operation => ("head", 2, LINE - 8),
        Level::Wave => ("head", 12, LINE - 8),
        Level::Object => ("", 24, LINE - 11),
    };
    let name = Markup::all([Markup::text(&cut(&line.label)), Markup::of("title", &line.label)]);
    let name = shape("text", "", &[("x", indent), ("y", y.saturating_add(15))], Some(name));
    let top = y.saturating_add(4);
    let spans = line.spans.iter().map(|span| bar(line, span, (top, thick), scale));
    let marks = line.marks.iter().map(|mark| {
        let x = scale.x(mark.at);
        let path = format!("M{} {}h8l-4 6z", x.saturating_sub(4), top.saturating_sub(3));
        let class = format!("mark {}", mark.tone.class());
        let title = Markup::of("title", &format!("{}: {}", mark.at, mark.text));
        Markup::element("path", &[("class", &class), ("d", &path)], [title])
    });
    Markup::element("g", &[("class", class)], std::iter::once(name).chain(spans).chain(marks))
}

fn bar(line: &Line, span: &Span, (top, thick): (u64, u64), scale: &Scale) -> Markup {
    let end = span.to.unwrap_or(scale.to);
    let (from, to) = (scale.x(span.from), scale.x(end));
    let attempt = if span.attempt > 1 { format!(" (attempt {})", span.attempt) } else { String::new() };
    let why = if span.why.is_empty() { String::new() } else { format!(": {}", span.why) };
    let took = format_duration(end.since(span.from));
    let title = Markup::of("title", &format!("{}: {}{attempt}, {took}{why}", line.label, span.state));
    let wide = to.saturating_sub(from).max(2);
    let bar = shape(
        "rect",
        span.tone.class(),
        &[("x", from), ("y", top), ("width", wide), ("height", thick), ("rx", 2)],
        Some(title),
    );
    if span.tone != Tone::Wait || wide <= 6 {
        return bar;
    }
    // Waits have a line through them, so that they are known without colours.
    let middle = top.saturating_add(thick / 2);
    let through =
        [("x1", from.saturating_add(2)), ("x2", to.saturating_sub(2)), ("y1", middle), ("y2", middle)];
    Markup::all([bar, shape("line", "through", &through, None)])
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARS.saturating_sub(1)).chain(['…']).collect()
}
