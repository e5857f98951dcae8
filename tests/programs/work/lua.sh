# Tables, closures, coroutines, string building and pattern matching.
set -eu
cat >main.lua <<'END'
local x = 42
local function rnd(n) x = (x * 1103515245 + 12345) % 2147483648; return x // 65536 % n end
local rows, counts = {}, {}
for i = 1, 150000 do
    local name = "n" .. rnd(5000)
    rows[i] = { id = i, name = name, tags = { rnd(9), rnd(99) } }
    counts[name] = (counts[name] or 0) + 1
end
table.sort(rows, function(a, b)
    if a.name ~= b.name then return a.name < b.name end
    return a.id < b.id
end)
local parts = {}
for i = 1, #rows, 7 do parts[#parts + 1] = rows[i].name .. ":" .. rows[i].tags[2] end
print(table.concat(parts, " "))
local producer = coroutine.wrap(function()
    for i = 1, 50000 do coroutine.yield(string.rep(string.char(97 + i % 26), i % 60)) end
end)
local length = 0
for text in producer do length = length + #text:gsub("a", "bc") end
print(length, select(2, table.concat(parts):gsub("n(%d)%d*:", "%1")))
local maps = io.open("/proc/self/maps"):read("a")
io.open("mapped/lua", "w"):write(maps):close()
END
lua5.4 main.lua
