package main

import (
	"context"
	"log"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// follow returns a linear cache of the clusters below a prefix of etcd, and keeps it equal to them.
func follow(endpoints, prefix string) cache.Cache {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ",")})
	if err != nil {
		log.Fatal(err)
	}
	read, err := client.Get(context.Background(), prefix, clientv3.WithPrefix())
	if err != nil {
		log.Fatal(err)
	}
	clusters := make(map[string]types.Resource, len(read.Kvs))
	for _, kv := range read.Kvs {
		clusters[strings.TrimPrefix(string(kv.Key), prefix)] = decode(kv.Value)
	}
	followed := cache.NewLinearCache(resource.ClusterType, cache.WithInitialResources(clusters))
	events := client.Watch(context.Background(), prefix, clientv3.WithPrefix(), clientv3.WithRev(read.Header.Revision+1))
	go func() {
		for response := range events {
			if err := response.Err(); err != nil {
				log.Fatal(err)
			}
			changed := map[string]types.Resource{}
			var removed []string
			for _, event := range response.Events {
				name := strings.TrimPrefix(string(event.Kv.Key), prefix)
				if event.Type == clientv3.EventTypeDelete {
					removed = append(removed, name)
				} else {
					changed[name] = decode(event.Kv.Value)
				}
			}
			if err := followed.UpdateResources(changed, removed); err != nil {
				log.Fatal(err)
			}
		}
	}()
	return followed
}

func decode(value []byte) types.Resource {
	decoded := &cluster.Cluster{}
	if err := proto.Unmarshal(value, decoded); err != nil {
		log.Fatal(err)
	}
	return decoded
}
