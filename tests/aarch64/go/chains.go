// SPDX-License-Identifier: Apache-2.0

// Go code that writes down each chain of calls before it walks it, as tests/truth/native/chains.c does:
//
//	chains SECONDS WARM_UP
//
// Seconds are of time that the thread ran. Until the warm-up is over the thread is called "warm-up", then "truth".
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

const (
	stepsMax = 12
	burnNs   = 8_000_000
	clockId  = 3 // CLOCK_THREAD_CPUTIME_ID
)

type walk struct {
	steps []int
	sink  uint64
}

type pot struct{ depth int }

type cook interface{ stir(w *walk) }

// Variables, so that the compiler calls what they hold: no wrapper, nothing inlined.
var (
	kitchen cook = &pot{3}
	closure func()
)

var names = []string{"main.stepPlain", "main.(*pot).stir", "main.stepClosure main.stepClosure.func1", "main.stepLarge",
	"main.stepDeferred main.stepDeferred.func1"}

func threadNs() uint64 {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockId, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Nano())
}

//go:noinline
func leaf(w *walk) {
	end := threadNs() + burnNs
	for threadNs() < end {
		for i := 0; i < 1000; i++ {
			w.sink = w.sink*3 + 1
		}
	}
}

//go:noinline
func goOn(w *walk) {
	if len(w.steps) == 0 {
		leaf(w)
		return
	}
	step := w.steps[0]
	w.steps = w.steps[1:]
	switch step {
	case 0:
		stepPlain(w)
	case 1:
		kitchen.stir(w)
	case 2:
		stepClosure(w)
	case 3:
		stepLarge(w)
	case 4:
		stepDeferred(w)
	}
	w.sink++
}

//go:noinline
func stepPlain(w *walk) {
	goOn(w)
	w.sink++
}

//go:noinline
func (p *pot) stir(w *walk) {
	goOn(w)
	w.sink += uint64(p.depth)
}

//go:noinline
func stepClosure(w *walk) {
	number := uint64(len(w.steps))
	closure = func() {
		goOn(w)
		w.sink += number
	}
	closure()
	w.sink++
}

// Its frame is larger than most, and its stack may grow here.
//
//go:noinline
func stepLarge(w *walk) {
	var block [40000]byte
	block[len(w.steps)] = 1
	goOn(w)
	w.sink += uint64(block[len(w.steps)%100])
}

//go:noinline
func stepDeferred(w *walk) {
	defer func() { goOn(w); w.sink++ }()
	w.sink++
}

func nameThread(name string) {
	text := append([]byte(name), 0)
	syscall.RawSyscall(syscall.SYS_PRCTL, 15, uintptr(unsafe.Pointer(&text[0])), 0)
}

func main() {
	runtime.LockOSThread()
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	warmUp, _ := strconv.ParseFloat(os.Args[2], 64)
	w := &walk{}
	nameThread("warm-up")
	for isWarm := false; float64(threadNs()) < (seconds+warmUp)*1e9; {
		if !isWarm && float64(threadNs()) > warmUp*1e9 {
			isWarm = true
			nameThread("truth")
		}
		words := []string{"chain", "main.main"}
		for count := 1 + rand.Intn(stepsMax); count > 0; count-- {
			step := rand.Intn(len(names))
			w.steps = append(w.steps, step)
			words = append(words, "main.goOn", names[step])
		}
		words = append(words, "main.goOn", "main.leaf", "~?")
		fmt.Println(strings.Join(words, " "))
		goOn(w)
	}
}
