package main

import (
	"context"
	"fmt"
	"log"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// store is a cache that its owner changes.
type store interface {
	cache() cache.Cache
	// set publishes resources that have changed, all at once.
	set(indices ...int)
	// replace sets all resources again.
	replace()
}

// snapshots is a snapshot cache with one node group.
type snapshots struct {
	all        cache.SnapshotCache
	resources  *resources
	generation int
}

func newSnapshots(resources *resources, groups int) *snapshots {
	s := &snapshots{all: cache.NewSnapshotCache(true, cache.IDHash{}, nil), resources: resources}
	s.replace()
	for group := range groups {
		s.publish(fmt.Sprintf("node-%d", group), resources.withOwn(group))
	}
	return s
}

func (s *snapshots) cache() cache.Cache { return s.all }

// A snapshot is made of all resources, so a change of one replaces all.
func (s *snapshots) set(...int) { s.replace() }

func (s *snapshots) replace() { s.publish("bench", s.resources.all) }

func (s *snapshots) publish(node string, resources []types.Resource) {
	snapshot, err := cache.NewSnapshot(fmt.Sprint(s.generation), map[resource.Type][]types.Resource{s.resources.typeURL: resources})
	if err != nil {
		log.Fatal(err)
	}
	s.generation++
	if err := s.all.SetSnapshot(context.Background(), node, snapshot); err != nil {
		log.Fatal(err)
	}
}

// linear is a linear cache.
type linear struct {
	all       *cache.LinearCache
	resources *resources
}

func newLinear(resources *resources) *linear {
	return &linear{all: cache.NewLinearCache(resources.typeURL, cache.WithInitialResources(resources.byName())), resources: resources}
}

func (l *linear) cache() cache.Cache { return l.all }

func (l *linear) set(indices ...int) {
	changed := make(map[string]types.Resource, len(indices))
	for _, index := range indices {
		changed[resourceName(index)] = l.resources.all[index]
	}
	if err := l.all.UpdateResources(changed, nil); err != nil {
		log.Fatal(err)
	}
}

func (l *linear) replace() { l.all.SetResources(l.resources.byName()) }
