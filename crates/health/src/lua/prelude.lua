-- Makes the standard library safe for health scripts. Runs once in each Lua state, before the script. Its arguments are
-- the function that consumes steps of the budget, and the cost of a caught error.
local charge, catch_steps = ...
local tostring_raw, type, getmetatable, select, error, pcall_raw =
  tostring, type, getmetatable, select, error, pcall
local next_raw, ipairs = next, ipairs
local format, insert, remove, sort, unpack = string.format, table.insert, table.remove, table.sort, table.unpack

-- Removes everything that reads files, compiles text to code, runs independently of the script, prints, or is
-- random.
for _, name in ipairs({
  "bit32", "collectgarbage", "coroutine", "dofile", "gcinfo", "getfenv", "load", "loadfile", "loadstring", "module",
  "newproxy", "package", "rawlen", "setfenv",
}) do
  _G[name] = nil
end
string.dump, math.random, math.randomseed = nil, nil, nil
print = function() end
collectgarbage = function() return 0 end

-- Finalizers run when the state is closed, where their steps aren't counted. Lua 5.1 has no finalizers for
-- tables.
local setmetatable_raw, rawget, rawset = setmetatable, rawget, rawset
setmetatable = function(of, meta)
  local finalizer = type(meta) == "table" and rawget(meta, "__gc") or nil
  if finalizer == nil then return setmetatable_raw(of, meta) end
  rawset(meta, "__gc", nil)
  local done, result = pcall_raw(setmetatable_raw, of, meta)
  rawset(meta, "__gc", finalizer)
  if not done then error(result, 2) end
  return result
end

-- Functions that Lua 5.1 has and Lua 5.2 has dropped.
_G.unpack, table.unpack, table.pack = unpack, nil, nil
table.getn = function(list) return #list end
table.maxn = function(list)
  local most = 0
  for key in next_raw, list do
    if type(key) == "number" and key > most then most = key end
  end
  return most
end
math.mod = math.fmod
math.pow = math.pow or function(base, exponent) return base ^ exponent end
local log = math.log
math.log, math.log10 = function(value) return log(value) end, function(value) return log(value, 10) end

-- The original `pairs` and `next` use an order that differs between runs. Here, numbers come first, then strings.
local rank = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then return (rank[kind] or 4) < (rank[other] or 4) end
  if kind == "boolean" then return b and not a end
  return rank[kind] ~= nil and a < b
end
local function keys_of(from)
  local keys, count, is_list = {}, 0, true
  for key in next_raw, from do
    count = count + 1
    keys[count] = key
    is_list = is_list and key == count
  end
  charge(count)
  if not is_list then sort(keys, before) end
  return keys
end
pairs = function(from)
  local keys, at = keys_of(from), 0
  return function()
    while true do
      at = at + 1
      local key = keys[at]
      if key == nil then return nil end
      local value = from[key]
      if value ~= nil then return key, value end
    end
  end, from, nil
end
next = function(from, after)
  local found
  for key in next_raw, from do
    if (after == nil or before(after, key)) and (found == nil or before(key, found)) then found = key end
  end
  if found == nil then return nil end
  return found, from[found]
end

-- Functions that take longer than an instruction must consume additional steps.
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
for _, name in ipairs({ "concat", "maxn" }) do by_length(table, name, entries) end
by_length(_G, "tonumber", length)

-- The original runs the handler at the place of the error. If the budget check raised the error, the handler
-- would not be limited.
local function handled(handler, ok, ...)
  if ok then return true, ... end
  return false, handler(...)
end
xpcall = function(call, handler) return handled(handler, pcall(call)) end

-- Omits addresses, because they differ between runs.
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

-- Accepts any value for %s, as in Argo CD's interpreter.
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

-- Lua 5.1 accepts positions beyond the end. Unlike Lua 5.1, this function never visits all positions up to a
-- huge one.
table.insert = function(list, ...)
  if select("#", ...) >= 2 then
    local place = ...
    if type(place) ~= "number" or not (place >= 1 and place < 2 ^ 31) then
      error("bad argument #2 to 'insert' (the position must be 1 or more)", 2)
    end
    charge(#list)
    if place > #list + 1 then
      list[place] = select(2, ...)
      return
    end
  end
  return insert(list, ...)
end
table.remove = function(list, place)
  charge(#list)
  if place ~= nil and not (type(place) == "number" and place >= 1 and place <= #list) then return nil end
  return remove(list, place)
end

-- Compares in Lua, so that each comparison is counted.
local function less(a, b) return a < b end
table.sort = function(list, before)
  charge(#list)
  return sort(list, before or less)
end
