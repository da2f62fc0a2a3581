package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// loads is a load reporting service by Envoy's own protos: it asks for everything every second, and prints
//
//	lrs NODE FEATURES
//	load CLUSTER SERVICE LOCALITY issued=N succeeded=N error=N in_progress=N METRIC=COUNT:TOTAL…
//	drops CLUSTER SERVICE TOTAL CATEGORY=N…
//	lrs end
type loads struct {
	loadstats.UnimplementedLoadReportingServiceServer
}

func (loads) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	fmt.Printf("lrs %s %s\n", first.GetNode().GetId(), strings.Join(first.GetNode().GetClientFeatures(), ","))
	if n := len(first.ClusterStats); n > 0 {
		return fmt.Errorf("%d reports before they were asked for", n)
	}
	err = stream.Send(&loadstats.LoadStatsResponse{
		SendAllClusters:       true,
		LoadReportingInterval: durationpb.New(time.Second),
	})
	for err == nil {
		var report *loadstats.LoadStatsRequest
		if report, err = stream.Recv(); err == nil {
			show(report)
		}
	}
	if err == io.EOF {
		fmt.Println("lrs end")
		return nil
	}
	return err
}

func show(report *loadstats.LoadStatsRequest) {
	for _, cluster := range report.ClusterStats {
		key := cluster.ClusterName + " " + cluster.ClusterServiceName
		for _, place := range cluster.UpstreamLocalityStats {
			metrics := make([]string, 0)
			for _, metric := range place.LoadMetricStats {
				metrics = append(metrics, fmt.Sprintf(" %s=%d:%g", metric.MetricName,
					metric.NumRequestsFinishedWithMetric, metric.TotalMetricValue))
			}
			if cpu := place.CpuUtilization; cpu != nil {
				metrics = append(metrics, fmt.Sprintf(" cpu_utilization=%d:%g",
					cpu.NumRequestsFinishedWithMetric, cpu.TotalMetricValue))
			}
			sort.Strings(metrics)
			fmt.Printf("load %s %s issued=%d succeeded=%d error=%d in_progress=%d%s\n", key,
				place.GetLocality().GetRegion(), place.TotalIssuedRequests, place.TotalSuccessfulRequests,
				place.TotalErrorRequests, place.TotalRequestsInProgress, strings.Join(metrics, ""))
		}
		if cluster.TotalDroppedRequests > 0 {
			fmt.Printf("drops %s %d", key, cluster.TotalDroppedRequests)
			for _, drops := range cluster.DroppedRequests {
				fmt.Printf(" %s=%d", drops.Category, drops.DroppedCount)
			}
			fmt.Println()
		}
	}
}
