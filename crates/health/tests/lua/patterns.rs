//! The reimplemented `find`, `match`, `gmatch` and `gsub` must behave like Lua's.

use mlua::{Lua, StdLib};
use proptest::prelude::*;

use crate::script_message;

/// Returns the result of the functions in stock Lua.
fn stock_lua(expression: &str) -> String {
    let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE, mlua::LuaOptions::new()).unwrap();
    match lua.load(format!("return tostring({expression})")).eval::<String>() {
        Ok(text) => text,
        Err(_) => "error".to_owned(),
    }
}

/// Returns all results of an expression as one string.
fn all_results(call: &str) -> String {
    format!(
        "(function(...) local all = {{}} for i = 1, select('#', ...) do all[i] = tostring((select(i, ...))) end \
         return table.concat(all, '|') end)({call})"
    )
}

fn reimplemented(expression: &str) -> String {
    let said = script_message(expression);
    if said.starts_with("health script failed: ") { "error".to_owned() } else { said }
}

#[test]
fn the_same_as_in_lua() {
    for call in [
        "('hello world'):find('wor')",
        "('hello world'):find('o', 6)",
        "('hello world'):find('o', -4)",
        "('hello world'):find('o', 100)",
        "('a.b'):find('.', 1, true)",
        "('a.b'):find('%.')",
        "(''):find('')",
        "('abc'):find('', 10)",
        "('abc'):find('', 4)",
        "('v1.22.3'):match('^v(%d+)%.(%d+)')",
        "('key = value'):match('^(%w+)%s*=%s*(%w+)$')",
        "('  trim  '):match('^%s*(.-)%s*$')",
        "('THE (quick) fox'):find('%((%a+)%)')",
        "('f(a(b)c)d'):match('%b()')",
        "('THE (quick) fox'):gsub('%f[%a]%a+', string.lower)",
        "('hello'):gsub('l+', '<%0>')",
        "('hello'):gsub('', '-')",
        "('hello'):gsub('l', {l = 'L'})",
        "('hello'):gsub('(h)(e)', '%2%1%%')",
        "('abc'):gsub('%w', '%0%0', 2)",
        "('abc'):gsub('^a', 'x')",
        "('aaa'):gsub('^a', 'x')",
        "('hello world'):gsub('o', function() return nil end)",
        "('hello'):gsub('l', '%9')",
        "('abc'):match('()b()')",
        "('[[x]]'):match('[]]+')",
        "('a-b'):match('[a%-]+')",
        "('x^y'):match('[x^]+')",
        "('abc'):match('[^a]+')",
        "('0x1F'):match('%x+', 3)",
        "('aXbX'):match('(.)X(.)X')",
        "('abab'):match('(ab)%1')",
        "('say \"hi\"'):match('([\"\\'])(.-)%1')",
        "('abc'):match('a?b?c?d?')",
        "('abc'):match('%')",
        "('abc'):match('[a')",
        "('abc'):match('(a')",
        "('abc'):match('a)')",
        "('abc'):match('%1')",
        "('x'):rep(3)",
        "('x'):rep(0)",
        "('x'):rep(-1)",
        "(''):rep(1e9)",
        "('a,b,,c'):gsub(',', ';')",
        "(12345):rep(2)",
    ] {
        assert_eq!(reimplemented(&all_results(call)), stock_lua(&all_results(call)), "{call}");
    }
    for (text, pattern) in
        [("one two  three", "%a+"), ("a=1, b=2", "(%w+)=(%w+)"), ("abc", ""), ("a\\0b", "%z")]
    {
        let walk = format!(
            "(function() local all = {{}} for a, b in ('{text}'):gmatch('{pattern}') do all[#all + 1] = a .. ':' .. tostring(b) end \
             return table.concat(all, '|') end)()"
        );
        assert_eq!(reimplemented(&walk), stock_lua(&walk), "{text} {pattern}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_same_as_in_lua_for_any_pattern(
        text in "[ab(%) .]{0,8}",
        pattern in "(\\^)?([ab.]|%[aAdsb(]|\\[\\^?[ab%]{1,3}\\]|\\(|\\)|%1|%f|%bab|[*+?-]){0,6}\\$?",
        with in "[ab]{0,2}(%0)?(%1)?",
    ) {
        for call in [
            format!("('{text}'):find('{pattern}')"),
            format!("('{text}'):match('{pattern}', 2)"),
            format!("('{text}'):gsub('{pattern}', '{with}')"),
        ] {
            prop_assert_eq!(reimplemented(&all_results(&call)), stock_lua(&all_results(&call)), "{}", call);
        }
    }
}
