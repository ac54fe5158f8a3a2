//! Scripts can neither hang, nor use up all memory, nor end the process.

use proptest::prelude::*;
use serde_json::json;
use tidegate_health::HealthError;

use crate::{NOW, run, widget};

fn is_step_limit(result: &Result<tidegate_model::Health, HealthError>) -> bool {
    matches!(result, Err(HealthError::ScriptSteps { .. }))
}

/// Returns the result of a script after a single run, because these runs take a long time.
fn run_once(script: &str) -> Result<tidegate_model::Health, HealthError> {
    let compiled = tidegate_health::Script::new("example.org/Widget", "widget.lua", script).unwrap();
    let rules = tidegate_health::HealthRules::with_scripts([compiled]).unwrap();
    rules.assess(&widget(json!({})), NOW).expect("there is a script for widgets")
}

#[test]
fn endless_scripts_are_stopped() {
    for script in [
        "while true do end",
        "repeat until false",
        "for i = 1, math.huge do end",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() while true do pcall(function() while true do end end) end end) while true do end",
        "local function f() pcall(f) f() end f()",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "pcall(string.rep, 'x', 1e9) while true do end",
        // A single expensive call.
        "return ('a'):rep(20000):find(('.-'):rep(15) .. 'b')",
        "return ('a'):rep(3000):match('.*.*.*.*b')",
        "return ('a'):rep(3000):gsub('.-.-.-.-b', '')",
        "for _ in ('a'):rep(3000):gmatch('.*.*.*b') do end",
        "local list = {} for i = 1, 3000 do list[i] = i end table.sort(list, function() while true do end end)",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) pcall(function() return t[1] end) while true do local x = pcall(function() return t[1] end) end",
        // Each iteration processes a large text without allocating.
        "local a, b = ('x'):rep(4e6) .. 'a', ('x'):rep(4e6) .. 'b' while true do local c = a < b end",
        "while true do pcall(string.find, 'x', '[') end",
        "while true do require('os').date('%c %c') end",
        "local s = (' '):rep(4e6) while true do tonumber(s) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e5 do t[i] = nil end while true do next(t) end",
    ] {
        let result = run_once(script);
        assert!(is_step_limit(&result), "{script}: {result:?}");
    }
}

/// The limits wouldn't cover code that runs when the Lua state is closed.
#[test]
fn nothing_runs_after_the_script() {
    let script = "local meta = {__gc = function() while true do end end} setmetatable({}, meta) if meta.__gc == nil then error('gone') end return {status = 'Healthy'}";
    assert_eq!(run_once(script).unwrap().status, tidegate_model::HealthStatus::Healthy);
}

#[test]
fn scripts_with_too_much_memory_are_stopped() {
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "local s = ('x'):rep(4e6) while true do s:upper() end",
        "local s = ('x'):rep(4e6) while true do local t = s .. 'y' end",
        "return ('x'):rep(1e9)",
        "return ('x'):rep(1e300)",
        "local t = {} for i = 1, 1e8 do t[i] = {i} end",
        "local s = ('x'):rep(1e6) return (s:gsub('x', s))",
        "local t = {} for i = 1, 1e4 do t[i] = ('x'):rep(1e5) .. i end return table.concat(t)",
        "return string.format(('%s'):rep(100), unpack((function() local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e6) end return t end)()))",
    ] {
        let result = run_once(script);
        assert!(
            matches!(result, Err(HealthError::ScriptMemory { .. } | HealthError::ScriptSteps { .. })),
            "{script}: {result:?}"
        );
    }
    let caught = "local ok = pcall(function() return ('x'):rep(1e9) end) return {status = ok and 'Healthy' or 'Degraded'}";
    assert!(run(caught, json!({})).is_ok(), "a script may catch memory errors");
}

#[test]
fn deep_recursion_is_an_error() {
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return f() end return f()",
        "return ('a'):rep(1e5):find(('a?'):rep(1e5))",
        "return ('a'):rep(1000):find(('(a'):rep(40))",
        "return unpack({}, 1, 1e7)",
        "local t = {} setmetatable(t, {__index = t}) return t.x",
        "return table.insert({}, -2147483648, 1)",
        "return table.insert({}, 2 ^ 31, 1)",
        "return table.insert({}, 0 / 0, 1)",
        "local s = ('('):rep(300) return s:find(s)",
        "local function f(n) return (('a'):gsub('a', function() return f(n + 1) end)) end return f(1)",
    ] {
        let result = run_once(script);
        assert!(result.is_err(), "{script}: {result:?}");
    }
}

#[test]
fn functions_with_outside_access_are_missing() {
    for name in [
        "io",
        "bit32",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.clock",
        "os.tmpname",
        "debug",
        "package",
        "coroutine",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "module",
        "getfenv",
        "setfenv",
        "newproxy",
        "string.dump",
        "math.random",
        "math.randomseed",
        "require('os').execute",
        "require('os').getenv",
        "require('os').exit",
        "require('os').remove",
    ] {
        let script = format!("return {{ status = {name} == nil and 'Healthy' or 'Degraded' }}");
        assert_eq!(run(&script, json!({})).unwrap().status, tidegate_model::HealthStatus::Healthy, "{name}");
    }
    let error = run("return require('io')", json!({})).unwrap_err().to_string();
    assert!(error.contains("module \"io\" is not available to health scripts"), "{error}");
    assert!(run("collectgarbage('stop') print('x') return {status = 'Healthy'}", json!({})).is_ok());
}

#[test]
fn a_large_object_leaves_room_for_an_ordinary_script() {
    let conditions: Vec<_> = (0..2_000)
        .map(|n| json!({"type": format!("Ready{n}"), "status": "True", "message": format!("part {n} is ready")}))
        .collect();
    let fields = json!({"data": {"text": "x".repeat(250_000)}, "status": {"conditions": conditions}});
    let script = r#"
        local ready, last = 0, ""
        for _, condition in ipairs(obj.status.conditions) do
            if condition.status == "True" and string.find(condition.type, "^Ready") then
                ready = ready + 1
                last = string.format("%s (%d)", condition.message, ready)
            end
        end
        return { status = "Healthy", message = last }"#;
    assert_eq!(run(script, fields).unwrap().message, "part 1999 is ready (2000)");
}

/// Valid and invalid parts of scripts.
const PIECES: [&str; 40] = [
    "while true do",
    "for i = 1, 1e9 do",
    "repeat",
    "until false",
    "end",
    "if x then",
    "else",
    "local x =",
    "x =",
    "function f()",
    "return",
    "f()",
    "pcall(f)",
    "pcall(",
    ")",
    "obj",
    ".status",
    "[1]",
    "nil",
    "{}",
    "{x, x}",
    "'text'",
    "..",
    "+ 1",
    "== x",
    "x",
    "string.rep(",
    "1e9",
    ",",
    "string.gsub(x, '.-.-', f)",
    "table.insert(x, ",
    "table.sort(x)",
    "setmetatable(x, {__index = f})",
    "x = x .. x",
    "x[#x + 1] = x",
    "tostring(x)",
    "require('os')",
    "error(x)",
    "table.concat(x)",
    "string.format('%s', x)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_written_there_is_an_answer(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 1..12)) {
        let text = pieces.join(" ");
        if let Ok(script) = tidegate_health::Script::new("example.org/Widget", "w", text) {
            let rules = tidegate_health::HealthRules::with_scripts([script]).unwrap();
            let object = crate::widget(json!({"status": {"x": [1, "a", null]}}));
            prop_assert_eq!(rules.assess(&object, crate::NOW), rules.assess(&object, crate::NOW));
        }
    }

    #[test]
    fn loops_around_anything_end(body in prop::sample::select(&[
        "x = (x or '') .. 'abc'", "x = {x}", "pcall(error)", "pcall(error, x)", "x = tostring(x)", "x = ('a'):rep(i)",
        "x = ('aaaaaaaaaaaaaaaa'):find('a-a-a-b')", "x = {} for k = 1, i do x[k] = k end", "x = string.format('%s', i)",
        "pcall(function() error({}) end)", "table.sort({3, 1, 2})", "for k, v in pairs(obj) do x = k end",
        "x = ('abc'):gsub('%w', function(c) return c .. i end)", "i = i + 1", "x = pcall(pcall, pcall, pcall)",
    ][..]), catch in any::<bool>()) {
        let script = if catch {
            format!("local x, i = nil, 0 while true do pcall(function() while true do i = i + 1 {body} end end) end")
        } else {
            format!("local x, i = nil, 0 while true do i = i + 1 {body} end")
        };
        let result = run_once(&script);
        prop_assert!(
            matches!(result, Err(HealthError::ScriptSteps { .. } | HealthError::ScriptMemory { .. })),
            "{script}: {result:?}"
        );
    }
}
