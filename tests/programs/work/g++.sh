# Compiles a template-heavy C++17 file and runs the result.
set -eu
cp "$WORK/lib/templates.cpp" .
g++ -std=c++17 -O1 -c templates.cpp -o out/templates.o
g++ -o templates out/templates.o
./templates
