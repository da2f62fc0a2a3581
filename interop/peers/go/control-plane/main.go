// A control plane on go-control-plane's snapshot cache, over a folder of YAML resources.
//
// It reads every *.yaml of the folder (one resource with "@type" per document), serves them to every node
// alike, and looks for changes ten times a second. Lines on stdout:
//
//	grpc ADDRESS         the address it listens on, once
//	snapshot HASH        a new snapshot is served
//	ack TYPE NAMES       a client accepted a response
//	nack TYPE MESSAGE    a client rejected one
//
// and the lines of loads.go about reported loads.
//
//	control-plane [FLAGS of secure.go] DIR [ADDRESS]
package main

import (
	"context"
	"fmt"
	"log"

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
	"oxds/interop/peers-shared/folder"
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
	dir, listener := folder.Arguments()
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
	options, err := secured()
	if err != nil {
		log.Fatal(err)
	}
	g := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(g, all)
	loadstats.RegisterLoadReportingServiceServer(g, loads{})
	// Each type has its own service, too.
	clusterservice.RegisterClusterDiscoveryServiceServer(g, all)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, all)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, all)
	routeservice.RegisterRouteDiscoveryServiceServer(g, all)
	fmt.Println("grpc", listener.Addr())
	go folder.Follow(dir, func() folder.Snapshot {
		return &snapshot{cache: snapshots, perType: map[types.ResponseType][]types.Resource{}}
	})
	log.Fatal(g.Serve(listener))
}

func report(typeURL, nonce string, refused *status.Status, names []string) {
	switch {
	case refused != nil:
		folder.Nacked(typeURL, refused.Message)
	case nonce != "":
		folder.Acked(typeURL, names)
	}
}

// snapshot collects the documents of the folder.
type snapshot struct {
	cache   cache.SnapshotCache
	perType map[types.ResponseType][]types.Resource
}

func (s *snapshot) Add(document []byte) error {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return err
	}
	var envelope anypb.Any
	if err := protojson.Unmarshal(text, &envelope); err != nil {
		return err
	}
	message, err := envelope.UnmarshalNew()
	if err != nil {
		return err
	}
	kind := cache.GetResponseType(envelope.TypeUrl)
	s.perType[kind] = append(s.perType[kind], message)
	return nil
}

func (s *snapshot) Publish(version string) error {
	next := &cache.Snapshot{}
	for kind, resources := range s.perType {
		next.Resources[kind] = cache.NewResources(version, resources)
	}
	return s.cache.SetSnapshot(context.Background(), everyone, next)
}
