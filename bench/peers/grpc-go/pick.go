package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/pickfirst"
	_ "google.golang.org/grpc/balancer/ringhash"
	_ "google.golang.org/grpc/balancer/roundrobin"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// pick measures the pickers of a policy over endpoints that are all ready, without connections. It prints the nanoseconds
// of one pick with its end.
func pick(policy, endpoints, picks string) {
	count, err := strconv.Atoi(endpoints)
	if err != nil {
		log.Fatal(err)
	}
	times, err := strconv.Atoi(picks)
	if err != nil {
		log.Fatal(err)
	}
	cc := &fakeChannel{}
	builder := balancer.Get(policy)
	if builder == nil {
		log.Fatalf("no policy %s", policy)
	}
	lb := builder.Build(cc, balancer.BuildOptions{})
	state := balancer.ClientConnState{BalancerConfig: config(builder, policy)}
	for i := range count {
		address := fmt.Sprintf("10.%d.%d.%d:443", i>>16, i>>8&255, i&255)
		state.ResolverState.Endpoints = append(state.ResolverState.Endpoints,
			resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
		state.ResolverState.Addresses = append(state.ResolverState.Addresses, resolver.Address{Addr: address})
	}
	if err := lb.UpdateClientConnState(state); err != nil {
		log.Fatal(err)
	}
	cc.drain()
	calls := calls(policy)
	warmUp(cc, calls, count)
	picker := cc.picker()
	start := time.Now()
	for i := range times {
		result, err := picker.Pick(calls[i%len(calls)])
		if err != nil {
			log.Fatal(err)
		}
		if result.Done != nil {
			result.Done(balancer.DoneInfo{})
		}
	}
	nanos := float64(time.Since(start).Nanoseconds()) / float64(times)
	fmt.Println(strconv.FormatFloat(nanos, 'f', 3, 64))
}

func config(builder balancer.Builder, policy string) serviceconfig.LoadBalancingConfig {
	parser, ok := builder.(balancer.ConfigParser)
	if !ok {
		return nil
	}
	text := map[string]string{
		"ring_hash_experimental":     `{"minRingSize":1024,"maxRingSize":4096,"requestHashHeader":"key"}`,
		"least_request_experimental": `{"choiceCount":2}`,
		"weighted_round_robin":       `{"blackoutPeriod":"0s","weightUpdatePeriod":"0.1s"}`,
	}[policy]
	if text == "" {
		text = "{}"
	}
	parsed, err := parser.ParseConfig(json.RawMessage(text))
	if err != nil {
		log.Fatal(err)
	}
	return parsed
}

// calls returns different calls: those of a ring have different keys.
func calls(policy string) []balancer.PickInfo {
	all := make([]balancer.PickInfo, 1000)
	for i := range all {
		ctx := context.Background()
		if policy == "ring_hash_experimental" {
			ctx = metadata.AppendToOutgoingContext(ctx, "key", strconv.FormatUint(rand.Uint64(), 36))
		}
		all[i] = balancer.PickInfo{FullMethodName: "/bench.Echo/Unary", Ctx: ctx}
	}
	return all
}

// warmUp picks until everything that the calls choose is connected, and reports different loads.
func warmUp(cc *fakeChannel, calls []balancer.PickInfo, endpoints int) {
	for i := range max(len(calls), 3*endpoints) {
		for {
			result, err := cc.picker().Pick(calls[i%len(calls)])
			if err == nil {
				if result.Done != nil {
					load := &orca.OrcaLoadReport{RpsFractional: 100, ApplicationUtilization: 0.1 + float64(i%7)/10}
					result.Done(balancer.DoneInfo{ServerLoad: load})
				}
				break
			}
			if err != balancer.ErrNoSubConnAvailable {
				log.Fatal(err)
			}
			cc.drain()
		}
	}
	// Three updates of weights.
	time.Sleep(300 * time.Millisecond)
	cc.drain()
}

// fakeChannel connects everything at once.
type fakeChannel struct {
	balancer.ClientConn
	mu    sync.Mutex
	last  balancer.State
	queue []func()
}

func (c *fakeChannel) picker() balancer.Picker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Picker
}

func (c *fakeChannel) later(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
}

// drain runs the callbacks that are due, as the serializer of a channel does.
func (c *fakeChannel) drain() {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

func (c *fakeChannel) NewSubConn(_ []resolver.Address, options balancer.NewSubConnOptions) (balancer.SubConn, error) {
	return &fakeSubConn{channel: c, listener: options.StateListener}, nil
}

func (c *fakeChannel) UpdateState(state balancer.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = state
}

func (c *fakeChannel) ResolveNow(resolver.ResolveNowOptions)   {}
func (c *fakeChannel) Target() string                          { return "xds:///bench" }
func (c *fakeChannel) MetricsRecorder() estats.MetricsRecorder { return noMetrics{} }

type fakeSubConn struct {
	balancer.SubConn
	channel  *fakeChannel
	listener func(balancer.SubConnState)
}

func (s *fakeSubConn) Connect() {
	for _, state := range []connectivity.State{connectivity.Connecting, connectivity.Ready} {
		s.channel.later(func() { s.listener(balancer.SubConnState{ConnectivityState: state}) })
	}
}

func (s *fakeSubConn) RegisterHealthListener(listener func(balancer.SubConnState)) {
	s.channel.later(func() { listener(balancer.SubConnState{ConnectivityState: connectivity.Ready}) })
}

func (s *fakeSubConn) Shutdown() {}

type noMetrics struct{ estats.MetricsRecorder }

func (noMetrics) RecordInt64Count(*estats.Int64CountHandle, int64, ...string)             {}
func (noMetrics) RecordFloat64Count(*estats.Float64CountHandle, float64, ...string)       {}
func (noMetrics) RecordInt64Histo(*estats.Int64HistoHandle, int64, ...string)             {}
func (noMetrics) RecordFloat64Histo(*estats.Float64HistoHandle, float64, ...string)       {}
func (noMetrics) RecordInt64Gauge(*estats.Int64GaugeHandle, int64, ...string)             {}
func (noMetrics) RecordInt64UpDownCount(*estats.Int64UpDownCountHandle, int64, ...string) {}
