// A go-control-plane server for the push scenarios: a snapshot or a linear cache over ADS.
//
// It prints the address it bound, then obeys the lines of its standard input; bench/src/push/server.rs lists them.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

func main() {
	kind := flag.String("cache", "snapshot", "snapshot or linear")
	holding := flag.String("holding", "clusters", "clusters or assignments")
	count := flag.Int("count", 1000, "how many")
	groups := flag.Int("groups", 0, "how many groups of nodes, each with a few resources of its own")
	endpoints := flag.String("etcd", "", "follow these members of etcd")
	prefix := flag.String("prefix", "", "the prefix of the clusters in etcd")
	folder := flag.String("load", "", "load this folder of YAML, print the result as JSON, and end")
	flag.Parse()
	if *folder != "" {
		load(*folder)
		return
	}

	if *endpoints != "" {
		serve(follow(*endpoints, *prefix))
		// The parent ends this program by a signal.
		select {}
	}
	resources := newResources(*holding, *count)
	var held store
	switch *kind {
	case "snapshot":
		held = newSnapshots(resources, *groups)
	case "linear":
		held = newLinear(resources)
	default:
		log.Fatalf("unknown cache %q", *kind)
	}

	serve(held.cache())

	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		obey(lines.Text(), held, resources)
	}
}

// serve serves a cache, and prints the address.
func serve(held cache.Cache) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	rpc := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(rpc, server.NewServer(context.Background(), held, nil))
	go func() { log.Fatal(rpc.Serve(listener)) }()
	fmt.Println(listener.Addr())
}

func obey(line string, held store, resources *resources) {
	switch word, rest, _ := strings.Cut(line, " "); word {
	case "cpu":
		fmt.Println(cpuMicros())
	case "heap":
		fmt.Println(liveHeap())
	case "change":
		held.set(resources.change())
	case "poison":
		var batch int
		if _, err := fmt.Sscan(rest, &batch); err != nil {
			log.Fatal(err)
		}
		held.set(resources.poison(batch)...)
	case "replace":
		resources.change()
		if rest == "bytes" {
			resources.decode()
		}
		held.replace()
	case "storm":
		var rate, millis int
		if _, err := fmt.Sscan(rest, &rate, &millis); err != nil {
			log.Fatal(err)
		}
		fmt.Println(storm(time.Second/time.Duration(rate), time.Duration(millis)*time.Millisecond, func() { held.set(resources.change()) }))
	default:
		fmt.Printf("error: what is %s?\n", word)
	}
}

// storm makes changes at fixed times and returns their number; a late one is not dropped, unless the time is over.
func storm(every, length time.Duration, change func()) (changes int) {
	for start := time.Now(); time.Since(start) < length; {
		change()
		changes++
		time.Sleep(time.Duration(changes)*every - time.Since(start))
	}
	return changes
}

// liveHeap returns the bytes of reachable objects, and gives all other memory back to the system.
func liveHeap() uint64 {
	// Objects with a finalizer or a cleanup are freed by the second collection.
	runtime.GC()
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func cpuMicros() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}
