package main

import (
	"fmt"
	"sync"
	"time"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v2"
	"google.golang.org/protobuf/types/known/durationpb"
)

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
