# Compiles a large schema to C++, Java and Python and to a descriptor set; encodes and decodes.
set -eu
seq 150 | awk 'BEGIN { print "syntax = \"proto3\";\npackage example;" }
    {
        n = $1
        print "message M" n " {"
        print "  int32 id = 1; string name = 2; repeated double values = 3; map<string, int64> t = 4;"
        print "  oneof kind { bool flag = 5; bytes data = 6; " (n > 1 ? "M" n - 1 " inner = 7; }" : "}")
        print "  enum E" n " { ZERO" n " = 0; ONE" n " = 1; } E" n " e = 8;\n}"
    }
    END { print "service S { rpc Get(M1) returns (M150); }" }' >all.proto
protoc --cpp_out=out --java_out=out --python_out=out --descriptor_set_out=out/set \
    --include_source_info all.proto
seq 2000 | awk '{ print "values: " $1 ".5 t { key: \"k" $1 % 500 "\" value: " $1 * 7 " }" }
    END { print "inner { name: \"x\" inner { id: 4 e: ONE148 } }" }' >message.txt
protoc --encode=example.M150 all.proto <message.txt >message.bin
protoc --decode_raw <message.bin | sha256sum
protoc --decode=example.M150 all.proto <message.bin | sort
