package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// took is the result of load; bench/src/load.rs reads it.
type took struct {
	// Millis is the time until a server has the resources.
	Millis float64 `json:"millis"`
	// EncodedMillis is the time until they are encoded and hashed too, which the cache does at the first delta request.
	EncodedMillis float64 `json:"encoded_millis"`
	Resources     int     `json:"resources"`
}

// load serves a folder of YAML as go-control-plane's users do: YAML to JSON, JSON to messages, validation, a snapshot.
func load(folder string) {
	start := time.Now()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	all := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	rpc := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(rpc, server.NewServer(context.Background(), all, nil))
	go func() { log.Fatal(rpc.Serve(listener)) }()

	found := readAll(folder)
	snapshot, err := cache.NewSnapshot("1", found)
	check(err)
	check(all.SetSnapshot(context.Background(), "bench", snapshot))
	result := took{Millis: millis(start)}
	check(snapshot.ConstructVersionMap())
	result.EncodedMillis = millis(start)
	for _, resources := range found {
		result.Resources += len(resources)
	}
	line, err := json.Marshal(result)
	check(err)
	fmt.Println(string(line))
}

// readAll reads the files of a folder on all processors.
func readAll(folder string) map[resource.Type][]types.Resource {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	check(err)
	queue := make(chan string, len(files))
	for _, file := range files {
		queue <- file
	}
	close(queue)
	found := map[resource.Type][]types.Resource{}
	var lock sync.Mutex
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for file := range queue {
				for typeURL, resources := range readFile(file) {
					lock.Lock()
					found[typeURL] = append(found[typeURL], resources...)
					lock.Unlock()
				}
			}
		})
	}
	readers.Wait()
	return found
}

func readFile(file string) map[resource.Type][]types.Resource {
	text, err := os.ReadFile(file)
	check(err)
	found := map[resource.Type][]types.Resource{}
	// sigs.k8s.io/yaml reads one document.
	for document := range bytes.SplitSeq(text, []byte("---\n")) {
		if len(document) == 0 {
			continue
		}
		asJSON, err := yaml.YAMLToJSON(document)
		check(err)
		var any anypb.Any
		check(protojson.Unmarshal(asJSON, &any))
		message, err := any.UnmarshalNew()
		check(err)
		check(message.(interface{ Validate() error }).Validate())
		found[any.TypeUrl] = append(found[any.TypeUrl], message)
	}
	return found
}

func millis(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1e3 }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
