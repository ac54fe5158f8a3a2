//! Typical scripts for Argo CD, in various styles.

use serde_json::{Value, json};
use tidegate_model::HealthStatus::{self, Degraded, Healthy, Progressing, Suspended};

use crate::{run, verdict};

fn check(script: &str, rows: Vec<(Value, HealthStatus, &str)>) {
    for (fields, status, message) in rows {
        assert_eq!(run(script, fields.clone()), verdict(status, message), "{fields}");
    }
}

fn ready(status: &str, message: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": "Synced", "status": "True"}, {"type": "Ready", "status": status, "message": message},
    ]}})
}

#[test]
fn a_global_table_and_a_walk_over_conditions() {
    let script = r#"
        hs = {}
        if obj.status ~= nil then
          if obj.status.conditions ~= nil then
            for i, condition in ipairs(obj.status.conditions) do
              if condition.type == "Ready" and condition.status == "False" then
                hs.status = "Degraded"
                hs.message = condition.message
                return hs
              end
              if condition.type == "Ready" and condition.status == "True" then
                hs.status = "Healthy"
                hs.message = condition.message
                return hs
              end
            end
          end
        end

        hs.status = "Progressing"
        hs.message = "Waiting for the controller"
        return hs"#;
    check(
        script,
        vec![
            (ready("True", "issued"), Healthy, "issued"),
            (ready("False", "expired"), Degraded, "expired"),
            (ready("Unknown", "?"), Progressing, "Waiting for the controller"),
            (json!({}), Progressing, "Waiting for the controller"),
            (json!({"status": null}), Progressing, "Waiting for the controller"),
            (json!({"status": {"conditions": null}}), Progressing, "Waiting for the controller"),
        ],
    );
}

#[test]
fn local_functions_tables_as_sets_and_generations() {
    let script = r#"
        local health = { status = "Progressing", message = "Provisioning ..." }
        local good = { Ready = true, Synced = true }

        local function contains(list, wanted)
          for _, entry in pairs(list) do
            if entry == wanted then return true end
          end
          return false
        end

        local function by_type(conditions)
          local found = {}
          for _, condition in ipairs(conditions or {}) do
            found[condition.type] = condition
          end
          return found
        end

        if obj.status == nil or next(obj.status) == nil then
          return health
        end
        if obj.metadata.generation and obj.status.observedGeneration
            and obj.metadata.generation ~= obj.status.observedGeneration then
          health.message = "Waiting for generation " .. obj.metadata.generation
          return health
        end
        local found = by_type(obj.status.conditions)
        local missing = {}
        for name in pairs(good) do
          if not found[name] or found[name].status ~= "True" then table.insert(missing, name) end
        end
        table.sort(missing)
        if #missing == 0 then
          return { status = "Healthy", message = "All of " .. #obj.status.conditions .. " conditions hold" }
        end
        if contains({ "ReconcileError", "CannotObserve" }, (found.Synced or {}).reason) then
          return { status = "Degraded", message = found.Synced.message or found.Synced.reason }
        end
        health.message = "Missing: " .. table.concat(missing, ", ")
        return health"#;
    let synced = |reason: &str| json!({"status": {"conditions": [{"type": "Synced", "status": "False", "reason": reason}]}});
    check(
        script,
        vec![
            (json!({}), Progressing, "Provisioning ..."),
            (json!({"status": {}}), Progressing, "Provisioning ..."),
            (
                json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2}}),
                Progressing,
                "Waiting for generation 3",
            ),
            (ready("True", ""), Healthy, "All of 2 conditions hold"),
            (ready("False", ""), Progressing, "Missing: Ready"),
            (synced("ReconcileError"), Degraded, "ReconcileError"),
            (synced("Creating"), Progressing, "Missing: Ready, Synced"),
        ],
    );
}

#[test]
fn texts_are_split() {
    let script = r#"
        local hs = {}
        local image = obj.spec.image or ""
        local registry, name, tag = image:match("^([^/]+)/(.+):(.+)$")
        local message = (obj.status and obj.status.message or ""):gsub("%s+", " ")
        if string.find(message, "quota", 1, true) then
          hs.status = "Suspended"
        elseif string.match(string.lower(message), "error:?%s*(%w+)") then
          hs.status = "Degraded"
          message = string.upper(string.sub(message, 1, 1)) .. string.sub(message, 2)
        else
          hs.status = "Healthy"
        end
        local words = 0
        for _ in string.gmatch(message, "%S+") do words = words + 1 end
        hs.message = string.format("%s/%s@%s: %s (%d words, %s)", registry, name, tag, message, words, obj.spec.extra)
        return hs"#;
    let with = |message: &str| json!({"spec": {"image": "ghcr.io/a/b:v1"}, "status": {"message": message}});
    check(
        script,
        vec![
            (with("all   well"), Healthy, "ghcr.io/a/b@v1: all well (2 words, nil)"),
            (with("over quota"), Suspended, "ghcr.io/a/b@v1: over quota (2 words, nil)"),
            (with("error: disk\nfull"), Degraded, "ghcr.io/a/b@v1: Error: disk full (3 words, nil)"),
            (json!({"spec": {}}), Healthy, "nil/nil@nil:  (0 words, nil)"),
        ],
    );
}

#[test]
fn an_age_is_computed_with_require_os() {
    let script = r#"
        local os = require("os")
        local function seconds(text)
          local y, mo, d, h, mi, s = text:match("(%d+)%-(%d+)%-(%d+)T(%d+):(%d+):(%d+)Z")
          return os.time({ year = y, month = mo, day = d, hour = h, min = mi, sec = s })
        end
        local age = os.difftime and os.difftime(os.time(), seconds(obj.status.since)) or os.time() - seconds(obj.status.since)
        if age > 600 then
          return { status = "Degraded", message = string.format("stuck for %d s", age) }
        end
        return { status = "Progressing", message = tostring(age) .. " s" }"#;
    check(
        script,
        vec![
            (json!({"status": {"since": "2026-11-21T09:29:00Z"}}), Progressing, "60 s"),
            (json!({"status": {"since": "2026-11-21T08:30:00Z"}}), Degraded, "stuck for 3600 s"),
        ],
    );
}

#[test]
fn phases_in_a_table_and_guards_with_pcall() {
    let script = r#"
        local phases = {
          [""] = "Progressing", Pending = "Progressing", Bound = "Healthy", Failed = "Degraded", Paused = "Suspended",
        }
        local ok, phase = pcall(function() return obj.status.phase end)
        if not ok then
          return { status = "Progressing", message = "no status yet" }
        end
        local hs = {
          status = phases[phase or ""] or "Unknown",
          message = phase ~= nil and ("Phase is " .. phase) or "No phase",
        }
        if hs.status == "Degraded" and obj.status.reason then hs.message = hs.message .. ": " .. obj.status.reason end
        return hs"#;
    check(
        script,
        vec![
            (json!({}), Progressing, "no status yet"),
            (json!({"status": {}}), Progressing, "No phase"),
            (json!({"status": {"phase": "Bound"}}), Healthy, "Phase is Bound"),
            (json!({"status": {"phase": "Paused"}}), Suspended, "Phase is Paused"),
            (json!({"status": {"phase": "Failed", "reason": "disk"}}), Degraded, "Phase is Failed: disk"),
            (json!({"status": {"phase": "Odd"}}), HealthStatus::Unknown, "Phase is Odd"),
        ],
    );
}

#[test]
fn numbers_compare_as_numbers() {
    let script = r#"
        local wanted = tonumber(obj.spec.replicas) or 1
        local status = obj.status or {}
        local there = status.readyReplicas or 0
        if there < wanted then
          return { status = "Progressing", message = there .. " of " .. wanted .. " replicas (" .. math.floor(100 * there / wanted) .. "%)" }
        end
        return { status = "Healthy", message = math.max(there, wanted) .. " replicas" }"#;
    check(
        script,
        vec![
            (
                json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}),
                Progressing,
                "1 of 3 replicas (33%)",
            ),
            (json!({"spec": {"replicas": "2"}, "status": {"readyReplicas": 2}}), Healthy, "2 replicas"),
            (json!({"spec": {}, "status": {"readyReplicas": 4}}), Healthy, "4 replicas"),
        ],
    );
}

#[test]
fn goto_and_functions_dropped_in_lua_5_2() {
    let script = r#"
        local seen = {}
        for _, condition in ipairs(obj.status.conditions) do
          if condition.type == "Synced" then goto continue end
          table.insert(seen, condition.type .. "=" .. condition.status)
          ::continue::
        end
        local first, second = unpack({ "a", "b" })
        local numbers = { table.getn(seen), table.maxn({ 1, 2, [7] = 3 }), math.mod(7, 4), math.pow(2, 3), math.log10(100) }
        return { status = "Healthy", message = table.concat(seen, " ") .. " " .. first .. second .. " " ..
          table.concat(numbers, " ") }"#;
    check(script, vec![(ready("True", ""), Healthy, "Ready=True ab 1 7 3 8 2")]);
}

#[test]
fn tables_are_iterated_in_a_fixed_order() {
    let fields = json!({"spec": {"zebra": 1, "ant": 2, "mouse": 3, "bee": 4, "cat": 5, "dog": 6}});
    let script = r#"
        local names = {}
        for name in pairs(obj.spec) do names[#names + 1] = name end
        local name, after = next(obj.spec), {}
        while name do after[#after + 1] = name name = next(obj.spec, name) end
        local mixed = {}
        for key, value in pairs({ "x", "y", b = 1, a = 2, [10] = 3 }) do mixed[#mixed + 1] = key .. "=" .. value end
        return { status = "Healthy", message = table.concat(names, " ") .. "; " .. table.concat(after, " ") .. "; " ..
          table.concat(mixed, " ") }"#;
    let expected = "ant bee cat dog mouse zebra; ant bee cat dog mouse zebra; 1=x 2=y 10=3 a=2 b=1";
    check(script, vec![(fields, Healthy, expected)]);
}

#[test]
fn fields_can_be_removed_during_iteration_and_indexes_can_exceed_the_length() {
    let script = r#"
        local left = { a = 1, b = 2, c = 3 }
        for key in pairs(left) do left[key] = nil left.c = nil end
        local list = { "one" }
        table.insert(list, 3, "three")
        local none = table.remove(list, 9)
        return { status = "Healthy", message = tostring(next(left)) .. " " .. list[3] .. " " .. tostring(none) }"#;
    check(script, vec![(json!({}), Healthy, "nil three nil")]);
}

/// The results must be the same as in Lua 5.1: https://www.lua.org/manual/5.1/manual.html#2.1 and #2.5.9
#[test]
fn texts_with_other_escapes_and_the_table_of_further_values() {
    let script = r#"
        -- it's "\d" here
        local function join(first, ...)
          local all = first
          for i = 1, arg.n do all = all .. "\-" .. tostring(arg[i]) end
          return all
        end
        hs = {}
        hs.status = "Healthy"
        hs.message = join("a\.b", 'v(\d)', nil, [[\.]], "\65\n")
        return hs"#;
    check(script, vec![(json!({}), Healthy, "a.b-v(d)-nil-\\.-A\n")]);
}
