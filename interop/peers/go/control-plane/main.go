// A control plane on go-control-plane's snapshot cache, over a folder of YAML resources.
//
// It reads every *.yaml of the folder (one resource with "@type" per document), serves them to every node
// alike, and looks for changes ten times a second. Lines on stdout:
//
//	grpc ADDRESS         the address it listens on, once
//	snapshot HASH        a new snapshot is served
//	ack TYPE NAMES       a client accepted a response
//	nack TYPE MESSAGE    a client refused one
//
// and what loads.go prints of the load that clients report to it.
//
//	control-plane DIR [ADDRESS]
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"net"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	server "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	// Messages that the resources carry inside an Any.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
)

// everyone is the one node group: all nodes see the same snapshot.
const everyone = "everyone"

type oneGroup struct{}

func (oneGroup) ID(*core.Node) string { return everyone }

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: control-plane DIR [ADDRESS]")
	}
	address := "127.0.0.1:0"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(false, oneGroup{}, nil)
	all := server.NewServer(context.Background(), snapshots, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			report(r.TypeUrl, r.ResponseNonce, r.ErrorDetail, r.ResourceNames)
			return nil
		},
		StreamDeltaRequestFunc: func(_ int64, r *discovery.DeltaDiscoveryRequest) error {
			report(r.TypeUrl, r.ResponseNonce, r.ErrorDetail, nil)
			return nil
		},
	})
	g := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(g, all)
	loadstats.RegisterLoadReportingServiceServer(g, loads{})
	// And each type by a service of its own.
	clusterservice.RegisterClusterDiscoveryServiceServer(g, all)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, all)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, all)
	routeservice.RegisterRouteDiscoveryServiceServer(g, all)
	fmt.Println("grpc", listener.Addr())
	go follow(os.Args[1], snapshots)
	log.Fatal(g.Serve(listener))
}

func report(typeURL, nonce string, refused *status.Status, names []string) {
	kind := path.Base(typeURL)
	switch {
	case refused != nil:
		fmt.Printf("nack %s %q\n", kind, refused.Message)
	case nonce != "":
		fmt.Printf("ack %s %s\n", kind, strings.Join(names, ","))
	}
}

// follow publishes the folder whenever its bytes differ from those served.
func follow(dir string, snapshots cache.SnapshotCache) {
	served := ""
	for ; ; time.Sleep(100 * time.Millisecond) {
		hash, snapshot, err := load(dir)
		if err != nil {
			log.Print(err)
			continue
		}
		if hash == served {
			continue
		}
		if err := snapshots.SetSnapshot(context.Background(), everyone, snapshot); err != nil {
			log.Fatal(err)
		}
		served = hash
		fmt.Println("snapshot", hash)
	}
}

func load(dir string) (string, *cache.Snapshot, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return "", nil, err
	}
	sort.Strings(files)
	all := sha256.New()
	perType := map[types.ResponseType][]types.Resource{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		all.Write(data)
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			resource, kind, err := parse(document)
			if err != nil {
				return "", nil, fmt.Errorf("%s: %w", file, err)
			}
			perType[kind] = append(perType[kind], resource)
		}
	}
	hash := hex.EncodeToString(all.Sum(nil)[:6])
	snapshot := &cache.Snapshot{}
	for kind, resources := range perType {
		snapshot.Resources[kind] = cache.NewResources(hash, resources)
	}
	return hash, snapshot, nil
}

func parse(document []byte) (types.Resource, types.ResponseType, error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, 0, err
	}
	var envelope anypb.Any
	if err := protojson.Unmarshal(text, &envelope); err != nil {
		return nil, 0, err
	}
	message, err := envelope.UnmarshalNew()
	if err != nil {
		return nil, 0, err
	}
	return message, cache.GetResponseType(envelope.TypeUrl), nil
}
