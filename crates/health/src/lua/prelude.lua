-- Makes the standard library safe for health scripts. Run once in each state, before the script, with the function that
-- takes steps off the budget.
local charge, catch_steps = ...
local tostring_raw, type, getmetatable, select, unpack, error, pcall_raw =
  tostring, type, getmetatable, select, unpack, error, pcall
local format, insert, sort = string.format, table.insert, table.sort

-- What reads files, makes code out of texts, has a life of its own, prints, or depends on chance.
for _, name in ipairs({
  "collectgarbage", "coroutine", "dofile", "gcinfo", "getfenv", "load", "loadfile", "loadstring", "module",
  "newproxy", "package", "setfenv",
}) do
  _G[name] = nil
end
string.dump, math.random, math.randomseed = nil, nil, nil
print = function() end
collectgarbage = function() return 0 end

-- What takes longer than an instruction.
local function caught(ok, ...)
  if not ok then charge(catch_steps) end
  return ok, ...
end
pcall = function(...) return caught(pcall_raw(...)) end
local pcall = pcall
local function by_length(library, name, steps)
  local original = library[name]
  library[name] = function(value, ...)
    charge(steps(value))
    return original(value, ...)
  end
end
local function length(value) return type(value) == "string" and #value / 16 or 1 end
local function entries(value) return type(value) == "table" and #value or 1 end
for _, name in ipairs({ "lower", "upper", "reverse" }) do by_length(string, name, length) end
for _, name in ipairs({ "concat", "maxn", "remove" }) do by_length(table, name, entries) end
by_length(_G, "tonumber", length)

-- The original runs the handler where the error is. Is that the look at the budget, nothing looks at the handler.
local function handled(handler, ok, ...)
  if ok then return true, ... end
  return false, handler(...)
end
xpcall = function(call, handler) return handled(handler, pcall(call)) end

-- Without addresses, which differ from run to run.
local nameless = { ["table"] = true, ["function"] = true, ["userdata"] = true, ["thread"] = true }
tostring = function(value)
  local kind = type(value)
  if nameless[kind] then
    local meta = getmetatable(value)
    if type(meta) ~= "table" or meta.__tostring == nil then return kind end
  end
  return tostring_raw(value)
end
local tostring = tostring

-- %s takes any value, as in Argo CD's interpreter.
string.format = function(text, ...)
  local count = select("#", ...)
  local values = { ... }
  for i = 1, count do
    local kind = type(values[i])
    if kind == "string" then charge(#values[i] / 16) end
    if kind ~= "string" and kind ~= "number" then values[i] = tostring(values[i]) end
  end
  return format(text, unpack(values, 1, count))
end

-- The original walks two thousand million places when asked to insert at a negative one.
table.insert = function(list, ...)
  if select("#", ...) >= 2 then
    local place = ...
    if type(place) ~= "number" or not (place >= 1 and place < 2 ^ 31) then
      error("bad argument #2 to 'insert' (the position must be 1 or more)", 2)
    end
    charge(#list)
  end
  return insert(list, ...)
end

-- With a comparison in Lua, so that each one is counted.
local function less(a, b) return a < b end
table.sort = function(list, before)
  charge(#list)
  return sort(list, before or less)
end
