// A go-control-plane server for P-1: M clusters in a snapshot or a linear cache over ADS.
//
// It prints the address it bound, then changes one cluster for every line it reads, and prints its
// own CPU time in microseconds for a line "cpu".
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"syscall"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

func main() {
	kind := flag.String("cache", "snapshot", "snapshot or linear")
	count := flag.Int("clusters", 1000, "how many clusters")
	flag.Parse()

	var source cache.Cache
	var change func(int)
	switch *kind {
	case "snapshot":
		source, change = snapshotCache(*count)
	case "linear":
		source, change = linearCache(*count)
	default:
		log.Fatalf("unknown cache %q", *kind)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	rpc := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(rpc, server.NewServer(context.Background(), source, nil))
	go func() { log.Fatal(rpc.Serve(listener)) }()
	fmt.Println(listener.Addr())

	lines := bufio.NewScanner(os.Stdin)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "cpu" {
			fmt.Println(cpuMicros())
			continue
		}
		change(n)
	}
}

// makeCluster is one cluster of about the size of the scenario's; timeout tells versions apart.
func makeCluster(index, generation int) *cluster.Cluster {
	return &cluster.Cluster{
		Name:                 clusterName(index),
		ConnectTimeout:       durationpb.New(time.Duration(1+generation) * time.Millisecond),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{
			EdsConfig: &core.ConfigSource{ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}}},
		},
		AltStatName: filler,
	}
}

func clusterName(index int) string { return fmt.Sprintf("cluster-%06d", index) }

func snapshotCache(count int) (cache.Cache, func(int)) {
	clusters := make([]types.Resource, count)
	for i := range clusters {
		clusters[i] = makeCluster(i, 0)
	}
	all := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	set := func(generation int) {
		snapshot, err := cache.NewSnapshot(fmt.Sprint(generation), map[resource.Type][]types.Resource{resource.ClusterType: clusters})
		if err != nil {
			log.Fatal(err)
		}
		if err := all.SetSnapshot(context.Background(), "bench", snapshot); err != nil {
			log.Fatal(err)
		}
	}
	set(0)
	return all, func(generation int) {
		// The caller owns the slice a snapshot was built from; a fresh message leaves the old snapshot as it was.
		clusters[generation%count] = makeCluster(generation%count, generation)
		set(generation)
	}
}

func linearCache(count int) (cache.Cache, func(int)) {
	clusters := make(map[string]types.Resource, count)
	for i := range count {
		clusters[clusterName(i)] = makeCluster(i, 0)
	}
	linear := cache.NewLinearCache(resource.ClusterType, cache.WithInitialResources(clusters))
	return linear, func(generation int) {
		index := generation % count
		if err := linear.UpdateResource(clusterName(index), makeCluster(index, generation)); err != nil {
			log.Fatal(err)
		}
	}
}

func cpuMicros() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}

// filler brings a cluster to about 500 bytes, the size the scenario assumes.
var filler = func() string {
	text := make([]byte, 420)
	for i := range text {
		text[i] = 'x'
	}
	return string(text)
}()
