# Builds a program that calls C through cgo from many goroutines, and runs it on the library.
set -eu
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=on CGO_ENABLED=1 GOPROXY=off
export GOCACHE="$PWD/tmp/cache" GOPATH="$PWD/tmp/path"
mkdir src
cd src
printf 'module example\n\ngo 1.18\n' >go.mod
cat >main.go <<'END'
package main

/*
#include <stdlib.h>
#include <string.h>

typedef struct list { struct list *next; unsigned value; char pad[]; } list;

static list *push(list *head, unsigned value) {
	size_t size = value % 700;
	list *n = malloc(sizeof *n + size);
	memset(n->pad, (int)(value & 127), size);
	n->next = head;
	n->value = value + (size ? (unsigned)n->pad[size - 1] : 0);
	return n;
}

static unsigned long sum_and_free(list *head) {
	unsigned long sum = 0;
	while (head) {
		list *next = head->next;
		sum += head->value;
		free(head);
		head = next;
	}
	return sum;
}
*/
import "C"

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"unsafe"
)

func work(n uint32) uint64 {
	var head *C.list
	for i := uint32(0); i < 20000; i++ {
		head = C.push(head, C.uint(i*n))
		if i%50 == 0 {
			text := C.CString(strings.Repeat("x", int(i%300)))
			if C.strlen(text) != C.size_t(i%300) {
				panic("length")
			}
			C.free(unsafe.Pointer(text))
		}
	}
	return uint64(C.sum_and_free(head))
}

func main() {
	var group sync.WaitGroup
	lists := make(chan *C.list, 16)
	sums := make([]uint64, 12)
	for i := range sums {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			sums[i] = work(uint32(i + 1))
			lists <- C.push(nil, C.uint(i))
		}(i)
	}
	group.Wait()
	close(lists)
	var handed []int
	for l := range lists { // freed on another thread than it was made on
		handed = append(handed, int(C.sum_and_free(l)))
	}
	sort.Ints(handed)
	fmt.Println(sums, handed)
	maps, _ := os.ReadFile("/proc/self/maps")
	_ = os.WriteFile("mapped/go", maps, 0o644)
}
END
go build -trimpath -buildvcs=false -o ../program .
cd ..
./program
