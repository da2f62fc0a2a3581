// The control plane of peers/go on go-control-plane as it was when it spoke API v2: the same folder, of resources in
// v2, and the same lines. It asks for load reports, of all clusters each second. Besides:
//
//	node ID BUILD_VERSION                who asks, or reports, from the first request of a stream
//	load CLUSTER ISSUED SUCCEEDED FAILED the sums of all reports so far
//
//	control-plane-v2 DIR [ADDRESS]
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
	"sync"
	"time"

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
	"google.golang.org/protobuf/types/known/durationpb"
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
	if len(os.Args) < 2 {
		log.Fatal("usage: control-plane-v2 DIR [ADDRESS]")
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
	go follow(os.Args[1], snapshots)
	log.Fatal(g.Serve(listener))
}

func report(r *api.DiscoveryRequest) {
	kind := path.Base(r.TypeUrl)
	switch {
	case r.ErrorDetail != nil:
		fmt.Printf("nack %s %q\n", kind, r.ErrorDetail.Message)
	case r.ResponseNonce != "":
		fmt.Printf("ack %s %s\n", kind, strings.Join(r.ResourceNames, ","))
	case r.Node != nil:
		fmt.Println("node", r.Node.Id, r.Node.GetBuildVersion())
	}
}

// loads adds up what clients report.
type loads struct {
	mutex sync.Mutex
	sums  map[string]*[3]uint64
}

func (l *loads) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	fmt.Println("node", first.Node.GetId(), first.Node.GetBuildVersion())
	everything := &loadstats.LoadStatsResponse{
		SendAllClusters:       true,
		LoadReportingInterval: durationpb.New(time.Second),
	}
	if err := stream.Send(everything); err != nil {
		return err
	}
	for {
		report, err := stream.Recv()
		if err != nil {
			return err
		}
		l.add(report)
	}
}

func (l *loads) add(report *loadstats.LoadStatsRequest) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, cluster := range report.ClusterStats {
		sums, ok := l.sums[cluster.ClusterName]
		if !ok {
			sums = new([3]uint64)
			l.sums[cluster.ClusterName] = sums
		}
		for _, locality := range cluster.UpstreamLocalityStats {
			sums[0] += locality.TotalIssuedRequests
			sums[1] += locality.TotalSuccessfulRequests
			sums[2] += locality.TotalErrorRequests
		}
		fmt.Println("load", cluster.ClusterName, sums[0], sums[1], sums[2])
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
		if err := snapshots.SetSnapshot(everyone, snapshot); err != nil {
			log.Fatal(err)
		}
		served = hash
		fmt.Println("snapshot", hash)
	}
}

func load(dir string) (string, cache.Snapshot, error) {
	snapshot := cache.Snapshot{}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return "", snapshot, err
	}
	sort.Strings(files)
	all := sha256.New()
	perType := map[types.ResponseType][]types.Resource{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", snapshot, err
		}
		all.Write(data)
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			resource, kind, err := parse(document)
			if err != nil {
				return "", snapshot, fmt.Errorf("%s: %w", file, err)
			}
			perType[kind] = append(perType[kind], resource)
		}
	}
	hash := hex.EncodeToString(all.Sum(nil)[:6])
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
	resource, ok := message.(types.Resource)
	if !ok {
		return nil, 0, fmt.Errorf("%s is no resource", envelope.TypeUrl)
	}
	return resource, cache.GetResponseType(envelope.TypeUrl), nil
}
