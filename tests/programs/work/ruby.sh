# Objects, strings, hashes, regular expressions, threads, compaction and marshalling.
set -eu
ruby -rjson -rdigest -rset -e '
  rng = Random.new(5)
  rows = (0...60000).map { |i| { id: i, name: "n#{rng.rand(5000)}", tags: [rng.rand(9)] * 3 } }
  text = JSON.generate(rows)
  back = JSON.parse(text, symbolize_names: true)
  copy = Marshal.load(Marshal.dump(back))
  groups = copy.group_by { |r| r[:name][/\d+/].to_i % 17 }.sort.map { |k, v| [k, v.size] }
  puts groups.inspect, Digest::SHA256.hexdigest(text)
  words = text.scan(/"name":"(\w+)"/).flatten.tally.max_by(20) { |w, n| [n, w] }
  puts words.inspect
  GC.compact
  threads = (1..4).map { |n| Thread.new { (1..20000).map { |i| (i * n).to_s * 3 }.to_set.size } }
  puts threads.map(&:value).inspect
  big = "x"; 18.times { big = big + big }
  puts (3**20000).to_s.sum, big.gsub("x", "yz").size, GC.count > 0
  File.write("mapped/ruby", File.read("/proc/self/maps"))
'
