# Compiles a program of functors and maps to native code and runs it.
set -eu
cat >main.ml <<'END'
module M = Map.Make (String)
module S = Set.Make (Int)
type tree = Leaf | Node of tree * int * string * tree
let rec insert k v = function
  | Leaf -> Node (Leaf, k, v, Leaf)
  | Node (l, x, w, r) when k < x -> Node (insert k v l, x, w, r)
  | Node (l, x, w, r) when k > x -> Node (l, x, w, insert k v r)
  | node -> node
let rec depth = function Leaf -> 0 | Node (l, _, _, r) -> 1 + max (depth l) (depth r)
let () =
  let words = List.init 60000 (fun i -> "w" ^ string_of_int (i * 7919 mod 5003)) in
  let counts = List.fold_left (fun m w ->
    M.update w (function None -> Some 1 | Some n -> Some (n + 1)) m) M.empty words in
  Printf.printf "%d %d\n" (M.cardinal counts) (M.fold (fun _ n s -> n * n + s) counts 0);
  let tree = List.fold_left (fun t i -> insert (i * 7919 mod 100003) (string_of_int i) t)
    Leaf (List.init 40000 Fun.id) in
  Printf.printf "%d\n" (depth tree);
  let set = S.of_list (List.init 50000 (fun i -> i * i mod 65537)) in
  Printf.printf "%d %d\n" (S.cardinal set) (S.max_elt set);
  let arrays = Array.init 3000 (fun i -> Bytes.make (i * 17 mod 60000) 'x') in
  Gc.compact ();
  Printf.printf "%d\n" (Array.fold_left (fun s b -> s + Bytes.length b) 0 arrays);
  let source = open_in "/proc/self/maps" and target = open_out "mapped/ocaml" in
  (try while true do output_string target (input_line source ^ "\n") done with End_of_file -> ());
  close_out target
END
ocamlopt -O3 -S -o main main.ml 2>/dev/null
cp main.s out/
./main
ocamlc -dlambda -o main.byte main.ml 2>out/lambda
./main.byte
