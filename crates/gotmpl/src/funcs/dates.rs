//! Dates, in UTC unless a zone is named.

use super::{Builtin, Call, Given, Ty, at, f, str_at};
use crate::time::{Time, duration_text, parse_duration};
use crate::value::Val;
use crate::zone::Zone;

const SECOND_NANOS: i64 = 1_000_000_000;

pub(super) const SPRIG: &[Builtin] = &[
    f("now", &[], |call, _| now(call).map(Val::Time)),
    f("date", &[Ty::Str, Ty::Any], |call, values| formatted(call, str_at(values, 0), at(values, 1), "UTC")),
    f("dateInZone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    f("date_in_zone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    f("htmlDate", &[Ty::Any], |call, values| formatted(call, "2006-01-02", at(values, 0), "UTC")),
    f("htmlDateInZone", &[Ty::Any, Ty::Str], |call, values| {
        formatted(call, "2006-01-02", at(values, 0), str_at(values, 1))
    }),
    f("dateModify", &[Ty::Str, Ty::Time], |_, values| {
        Ok(modified(values).unwrap_or_else(|_| at(values, 1).clone()))
    }),
    f("date_modify", &[Ty::Str, Ty::Time], |_, values| {
        Ok(modified(values).unwrap_or_else(|_| at(values, 1).clone()))
    }),
    f("mustDateModify", &[Ty::Str, Ty::Time], |_, values| modified(values)),
    f("must_date_modify", &[Ty::Str, Ty::Time], |_, values| modified(values)),
    f("toDate", &[Ty::Str, Ty::Str], |_, values| {
        let zero = Time::from_seconds(-62_135_596_800);
        Ok(Val::Time(Time::parse(str_at(values, 0), str_at(values, 1)).unwrap_or(zero)))
    }),
    f("mustToDate", &[Ty::Str, Ty::Str], |_, values| {
        let (layout, text) = (str_at(values, 0), str_at(values, 1));
        Time::parse(layout, text).map(Val::Time).ok_or_else(|| {
            format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as {layout:?}")
        })
    }),
    f("unixEpoch", &[Ty::Time], |_, values| match at(values, 0) {
        Val::Time(time) => Ok(Val::str(time.seconds.to_string())),
        _ => Ok(Val::str("0")),
    }),
    f("ago", &[Ty::Any], |call, values| {
        let now = now(call)?;
        let seconds = now.seconds.saturating_sub(moment(call, at(values, 0))?.seconds);
        Ok(Val::str(duration_text(seconds.saturating_mul(SECOND_NANOS))))
    }),
    f("duration", &[Ty::Any], |_, values| {
        let seconds = match at(values, 0) {
            Val::Str(text) => text.parse().unwrap_or_default(),
            Val::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(Val::str(duration_text(seconds.saturating_mul(SECOND_NANOS))))
    }),
    f("durationRound", &[Ty::Any], |call, values| Ok(Val::str(rounded(call, at(values, 0))?))),
];

fn now(call: &Call) -> Result<Time, String> {
    call.now.map(Time::from_seconds).ok_or_else(|| {
        "the time is not available in this template: it would say something else at every look".to_owned()
    })
}

/// A time, or a whole number as seconds since 1970; anything else is now.
fn moment(call: &Call, value: &Val) -> Result<Time, String> {
    match value {
        Val::Time(time) => Ok(*time),
        Val::Int(seconds) | Val::Int64(seconds) => Ok(Time::from_seconds(*seconds)),
        _ => now(call),
    }
}

/// A moment in a zone. Go takes UTC for a zone that it does not know; a time in a wrong one is worse than none.
fn formatted(call: &Call, layout: &str, value: &Val, zone: &str) -> Given {
    let Some(zone) = Zone::find(zone) else {
        let zone = crate::quote::quoted(zone);
        return Err(format!(
            "the time zone {zone} is not known; write it as in the IANA database, such as Europe/Berlin"
        ));
    };
    let moment = moment(call, value)?;
    Ok(Val::str(moment.format(layout, &zone.at(moment.seconds))))
}

fn in_zone(call: &Call, values: &[Val]) -> Given {
    formatted(call, str_at(values, 0), at(values, 1), str_at(values, 2))
}

fn modified(values: &[Val]) -> Given {
    let Val::Time(time) = at(values, 1) else { return Ok(at(values, 1).clone()) };
    let nanos = parse_duration(str_at(values, 0))
        .ok_or_else(|| format!("time: invalid duration {}", crate::quote::quoted(str_at(values, 0))))?;
    let total =
        i128::from(time.seconds) * i128::from(SECOND_NANOS) + i128::from(time.nanos) + i128::from(nanos);
    let seconds = i64::try_from(total.div_euclid(i128::from(SECOND_NANOS))).unwrap_or(i64::MAX);
    let nanos = u32::try_from(total.rem_euclid(i128::from(SECOND_NANOS))).unwrap_or_default();
    Ok(Val::Time(Time { seconds, nanos, offset: time.offset }))
}

/// In the largest unit that a duration is longer than: an hour is `60m`.
fn rounded(call: &Call, value: &Val) -> Result<String, String> {
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
