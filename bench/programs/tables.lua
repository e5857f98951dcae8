-- Records, sorting, strings, closures and coroutines; arg[1] is the number of rounds.
local x = 42
local function random(n)
    x = (x * 1103515245 + 12345) % 2147483648
    return x // 65536 % n
end

local function round(number)
    local rows, counts = {}, {}
    for i = 1, 60000 do
        local name = "n" .. random(5000)
        rows[i] = { id = i, name = name, tags = { random(9), random(99) } }
        counts[name] = (counts[name] or 0) + 1
    end
    table.sort(rows, function(a, b)
        if a.name ~= b.name then return a.name < b.name end
        return a.id < b.id
    end)
    local parts = {}
    for i = 1, #rows, 3 do parts[#parts + 1] = rows[i].name .. ":" .. rows[i].tags[2] end
    local text = table.concat(parts, " ")
    local producer = coroutine.wrap(function()
        for i = 1, 20000 do coroutine.yield(string.rep(string.char(97 + i % 26), i % 60)) end
    end)
    local length = 0
    for piece in producer do length = length + #piece:gsub("a", "bc") end
    local names = 0
    for _ in pairs(counts) do names = names + 1 end
    return number, #text, length, names, select(2, text:gsub("n(%d)%d*:", "%1")), text:sub(1, 60)
end

for number = 1, tonumber(arg[1]) do print(round(number)) end
