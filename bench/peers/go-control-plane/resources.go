package main

import (
	"fmt"
	"log"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// resources makes the contents of the caches. Its owner is the one goroutine that reads lines: a changed resource is a
// fresh message, so a cache keeps the message that it got.
type resources struct {
	typeURL    resource.Type
	make       func(index, generation int) types.Resource
	all        []types.Resource
	generation int
	// encoded is the argument of decode, made at its first call.
	encoded [][]byte
	// stale is the resource that has changed since encoded was made.
	stale int
}

func newResources(holding string, count int) *resources {
	r := &resources{all: make([]types.Resource, count)}
	switch holding {
	case "clusters":
		r.typeURL = resource.ClusterType
		r.make = func(index, generation int) types.Resource { return makeCluster(index, generation, 420) }
	case "assignments":
		r.typeURL, r.make = resource.EndpointType, makeAssignment
	default:
		log.Fatalf("unknown holding %q", holding)
	}
	for i := range r.all {
		r.all[i] = r.make(i, 0)
	}
	return r
}

// change makes the next generation of a resource and returns its index.
func (r *resources) change() int {
	r.generation++
	index := r.generation % len(r.all)
	r.all[index] = r.make(index, r.generation)
	r.stale = index
	return index
}

// poison makes resource 0 large and the rest of the batch larger than others; it returns their indices.
func (r *resources) poison(batch int) []int {
	changed := make([]int, batch)
	for i := range changed {
		changed[i] = i
		r.all[i] = makeCluster(i, 0, 1500)
	}
	r.all[0] = makeCluster(0, 0, 4000)
	return changed
}

// decode makes all messages from bytes, as a program does that reads them from a store.
func (r *resources) decode() {
	if r.encoded == nil {
		r.encoded = make([][]byte, len(r.all))
		for i := range r.all {
			r.encode(i)
		}
	}
	r.encode(r.stale)
	for i, bytes := range r.encoded {
		message := r.all[i].ProtoReflect().New().Interface()
		if err := proto.Unmarshal(bytes, message); err != nil {
			log.Fatal(err)
		}
		r.all[i] = message
	}
}

func (r *resources) encode(index int) {
	bytes, err := proto.Marshal(r.all[index])
	if err != nil {
		log.Fatal(err)
	}
	r.encoded[index] = bytes
}

// withOwn returns the resources of a group: one in a hundred is its own.
func (r *resources) withOwn(group int) []types.Resource {
	seen := append([]types.Resource(nil), r.all...)
	for index := len(seen) - len(seen)/100; index < len(seen); index++ {
		seen[index] = r.make(index, 1+group)
	}
	return seen
}

func (r *resources) byName() map[string]types.Resource {
	all := make(map[string]types.Resource, len(r.all))
	for i, one := range r.all {
		all[resourceName(i)] = one
	}
	return all
}

func resourceName(index int) string { return fmt.Sprintf("resource-%06d", index) }

// makeCluster is a cluster of the size that the scenarios assume; its statistics name has the time of its change, if there was one.
func makeCluster(index, generation, filler int) types.Resource {
	var stamp int64
	if generation > 0 {
		stamp = time.Now().UnixMicro()
	}
	return &cluster.Cluster{
		Name:                 resourceName(index),
		ConnectTimeout:       durationpb.New(time.Duration(1+generation) * time.Second),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{
			EdsConfig: &core.ConfigSource{ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}}},
		},
		AltStatName: fmt.Sprintf("%020d%s", stamp, strings.Repeat("x", filler)),
	}
}

// makeAssignment is an assignment of the size that the scenarios assume.
func makeAssignment(index, generation int) types.Resource {
	endpoints := make([]*endpoint.LbEndpoint, 100)
	for i := range endpoints {
		address := &core.SocketAddress{
			Address:       fmt.Sprintf("10.123.231.%d", 100+i),
			PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
		}
		endpoints[i] = &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
				Address:  &core.Address{Address: &core.Address_SocketAddress{SocketAddress: address}},
				Hostname: "backend.mesh",
			}},
			LoadBalancingWeight: wrapperspb.UInt32(uint32(1 + generation)),
		}
	}
	return &endpoint.ClusterLoadAssignment{
		ClusterName: resourceName(index),
		Endpoints:   []*endpoint.LocalityLbEndpoints{{LbEndpoints: endpoints}},
	}
}
