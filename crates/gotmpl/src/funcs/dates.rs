//! Date functions. Dates are in UTC unless a time zone is specified.

use super::{Builtin, Call, CallResult, Ty, at, fixed, str_at};
use crate::time::{Time, duration_text, parse_duration};
use crate::value::Val;
use crate::zone::Zone;

const SECOND_NANOS: i64 = 1_000_000_000;

pub(super) const SPRIG: &[Builtin] = &[
    fixed("now", &[], |call, _| now(call).map(Val::Time)),
    fixed("date", &[Ty::Str, Ty::Any], |call, values| {
        format_time(call, str_at(values, 0), at(values, 1), "UTC")
    }),
    fixed("dateInZone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    fixed("date_in_zone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    fixed("htmlDate", &[Ty::Any], |call, values| format_time(call, "2006-01-02", at(values, 0), "UTC")),
    fixed("htmlDateInZone", &[Ty::Any, Ty::Str], |call, values| {
        format_time(call, "2006-01-02", at(values, 0), str_at(values, 1))
    }),
    fixed("dateModify", &[Ty::Str, Ty::Time], |_, values| {
        Ok(modify_time(values).unwrap_or_else(|_| at(values, 1).clone()))
    }),
    fixed("date_modify", &[Ty::Str, Ty::Time], |_, values| {
        Ok(modify_time(values).unwrap_or_else(|_| at(values, 1).clone()))
    }),
    fixed("mustDateModify", &[Ty::Str, Ty::Time], |_, values| modify_time(values)),
    fixed("must_date_modify", &[Ty::Str, Ty::Time], |_, values| modify_time(values)),
    fixed("toDate", &[Ty::Str, Ty::Str], |_, values| {
        let zero = Time::from_seconds(-62_135_596_800);
        Ok(Val::Time(Time::parse(str_at(values, 0), str_at(values, 1)).unwrap_or(zero)))
    }),
    fixed("mustToDate", &[Ty::Str, Ty::Str], |_, values| {
        let (layout, text) = (str_at(values, 0), str_at(values, 1));
        Time::parse(layout, text).map(Val::Time).ok_or_else(|| {
            format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as {layout:?}")
        })
    }),
    fixed("unixEpoch", &[Ty::Time], |_, values| match at(values, 0) {
        Val::Time(time) => Ok(Val::str(time.seconds.to_string())),
        _ => Ok(Val::str("0")),
    }),
    fixed("ago", &[Ty::Any], |call, values| {
        let now = now(call)?;
        let seconds = now.seconds.saturating_sub(to_time(call, at(values, 0))?.seconds);
        Ok(Val::str(duration_text(seconds.saturating_mul(SECOND_NANOS))))
    }),
    fixed("duration", &[Ty::Any], |_, values| {
        let seconds = match at(values, 0) {
            Val::Str(text) => text.parse().unwrap_or_default(),
            Val::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(Val::str(duration_text(seconds.saturating_mul(SECOND_NANOS))))
    }),
    fixed("durationRound", &[Ty::Any], |call, values| Ok(Val::str(round_duration(call, at(values, 0))?))),
];

fn now(call: &Call) -> Result<Time, String> {
    call.now.map(Time::from_seconds).ok_or_else(|| {
        "the current time is not available in this template: it would differ between renderings".to_owned()
    })
}

/// Converts a value to a time. Integers are Unix times. Like sprig, returns the current time for any other
/// type.
fn to_time(call: &Call, value: &Val) -> Result<Time, String> {
    match value {
        Val::Time(time) => Ok(*time),
        Val::Int(seconds) | Val::Int64(seconds) => Ok(Time::from_seconds(*seconds)),
        _ => now(call),
    }
}

/// Formats a time in a zone. Unknown zones are an error, whereas Go silently uses UTC.
fn format_time(call: &Call, layout: &str, value: &Val, zone: &str) -> CallResult {
    let Some(zone) = Zone::find(zone) else {
        let zone = crate::quote::quote_string(zone);
        return Err(format!(
            "unknown time zone {zone}; use a name from the IANA database, such as Europe/Berlin"
        ));
    };
    let moment = to_time(call, value)?;
    Ok(Val::str(moment.format(layout, &zone.offset_at(moment.seconds))))
}

fn in_zone(call: &Call, values: &[Val]) -> CallResult {
    format_time(call, str_at(values, 0), at(values, 1), str_at(values, 2))
}

fn modify_time(values: &[Val]) -> CallResult {
    let Val::Time(time) = at(values, 1) else { return Ok(at(values, 1).clone()) };
    let nanos = parse_duration(str_at(values, 0))
        .ok_or_else(|| format!("time: invalid duration {}", crate::quote::quote_string(str_at(values, 0))))?;
    let total =
        i128::from(time.seconds) * i128::from(SECOND_NANOS) + i128::from(time.nanos) + i128::from(nanos);
    let seconds = i64::try_from(total.div_euclid(i128::from(SECOND_NANOS))).unwrap_or(i64::MAX);
    let nanos = u32::try_from(total.rem_euclid(i128::from(SECOND_NANOS))).unwrap_or_default();
    Ok(Val::Time(Time { seconds, nanos, offset: time.offset }))
}

/// Formats a duration in the largest unit shorter than it, so one hour becomes `60m`.
fn round_duration(call: &Call, value: &Val) -> Result<String, String> {
    let nanos = match value {
        Val::Str(text) => parse_duration(text).unwrap_or_default(),
        Val::Int64(nanos) => *nanos,
        Val::Time(time) => now(call)?.seconds.saturating_sub(time.seconds).saturating_mul(SECOND_NANOS),
        _ => 0,
    };
    let size = nanos.unsigned_abs();
    const DAY: u64 = 86_400;
    let units = [(365 * DAY, "y"), (30 * DAY, "mo"), (DAY, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut units = units.iter().map(|(seconds, name)| (seconds * SECOND_NANOS.unsigned_abs(), name));
    let unit = units.find(|(length, _)| size > *length);
    Ok(unit.map_or_else(|| "0s".to_owned(), |(length, name)| format!("{}{name}", size / length)))
}
