// The control plane of peers/go on go-control-plane of the release that spoke API v2: the same folder, of resources in
// v2, and the same lines. It asks for load reports, of all clusters each second. Besides:
//
//	node ID BUILD_VERSION                the client, from the first request of a stream
//	load CLUSTER ISSUED SUCCEEDED FAILED the sums of all reports so far
//
//	control-plane-v2 DIR [ADDRESS]
package main

import (
	"context"
	"fmt"
	"log"

	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	core "github.com/envoyproxy/go-control-plane/envoy/api/v2/core"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v2"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v2"
	server "github.com/envoyproxy/go-control-plane/pkg/server/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"oxds/interop/peers-shared/folder"
	"sigs.k8s.io/yaml"

	// Messages that listeners carry inside an Any.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/http/router/v2"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/network/http_connection_manager/v2"
)

// everyone is the one node group: all nodes see the same snapshot.
const everyone = "everyone"

type oneGroup struct{}

func (oneGroup) ID(*core.Node) string { return everyone }

func main() {
	dir, listener := folder.Arguments()
	snapshots := cache.NewSnapshotCache(false, oneGroup{}, nil)
	ads := server.NewServer(context.Background(), snapshots, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *api.DiscoveryRequest) error {
			report(r)
			return nil
		},
	})
	g := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(g, ads)
	loadstats.RegisterLoadReportingServiceServer(g, &loads{sums: map[string]*[3]uint64{}})
	fmt.Println("grpc", listener.Addr())
	go folder.Follow(dir, func() folder.Snapshot {
		return &snapshot{cache: snapshots, perType: map[types.ResponseType][]types.Resource{}}
	})
	log.Fatal(g.Serve(listener))
}

func report(r *api.DiscoveryRequest) {
	switch {
	case r.ErrorDetail != nil:
		folder.Nacked(r.TypeUrl, r.ErrorDetail.Message)
	case r.ResponseNonce != "":
		folder.Acked(r.TypeUrl, r.ResourceNames)
	case r.Node != nil:
		fmt.Println("node", r.Node.Id, r.Node.GetBuildVersion())
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
	resource, ok := message.(types.Resource)
	if !ok {
		return fmt.Errorf("%s is no resource", envelope.TypeUrl)
	}
	kind := cache.GetResponseType(envelope.TypeUrl)
	s.perType[kind] = append(s.perType[kind], resource)
	return nil
}

func (s *snapshot) Publish(version string) error {
	next := cache.Snapshot{}
	for kind, resources := range s.perType {
		next.Resources[kind] = cache.NewResources(version, resources)
	}
	return s.cache.SetSnapshot(everyone, next)
}
